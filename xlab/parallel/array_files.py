"""Pytrees of arrays in a folder: every process writes the parts that its devices hold, and reads those that its devices will hold.

A part that several devices hold is written once. A folder has `tree.json` (the structure, and the type of each leaf), written last, and for leaf
`i` the folder `i` with a file of raw bytes per part, named after its slices. Arrays may be read under another sharding than they
were written from, on another number of devices: each device reads the rows that it needs of the parts that have them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.backend import client
from xlab.compile.stages import ShapeDtypeStruct
from xlab.core import dtypes
from xlab.core.array import KeyArray, is_native_array
from xlab.core.avals import HOST_VALUES, aval_of
from xlab.core.trace import Tracer
from xlab.parallel.assemble import make_array_from_callback
from xlab.parallel.multihost import sync_global_devices
from xlab.sharding import Format, Sharding
from xlab.transforms.export_trees import read_tree, write_tree

VERSION = 1
_TREE = "tree.json"


class PyTreeFuture:
    """What a save or load in the background gives.

    Attributes:
        pytree: for a load, the types of what it will give.
    """

    def __init__(self, future: Future, pytree: Any = None):
        self._future, self.pytree = future, pytree

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> Any:
        """What it gives; waits for it, and raises what it raised."""
        return self._future.result(timeout)

    def __await__(self):
        import asyncio

        return asyncio.wrap_future(self._future).__await__()


_background = ThreadPoolExecutor(1, "xlab-array-files")


def save(data: Any, directory: str | os.PathLike, *, overwrite: bool = True) -> None:
    """Writes a pytree of arrays to a folder.

    Args:
        data: arrays of any shape and dtype, over any devices and processes, in dicts, lists, tuples and what `xlab.export` knows.
        directory: the folder, seen by all processes under one name.
        overwrite: whether what was saved there before may be replaced.

    Raises:
        ValueError: a leaf is no array; something was saved there and `overwrite` is False.
        RuntimeError: the folder has other files.

    Example:
        >>> import tempfile, xlab, xlab.numpy as jnp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save({"w": jnp.ones((4, 2)), "b": jnp.zeros(2)}, folder)
        ...     load(folder, xlab.sharding.SingleDeviceSharding(xlab.devices()[0]))["w"].shape
        (4, 2)
    """
    _write(*_parts(data, directory), Path(directory), overwrite)


def nonblocking_save(
    data: Any, directory: str | os.PathLike, *, overwrite: bool = True
) -> PyTreeFuture:
    """As `save`; the arrays are copied to the host first, and the files are written in the background."""
    made = _parts(data, directory)
    return PyTreeFuture(_background.submit(_write, *made, Path(directory), overwrite))


def load_pytreedef(directory: str | os.PathLike) -> Any:
    """The pytree that was saved in a folder, with types (`ShapeDtypeStruct`) in the place of arrays.

    Raises:
        FileNotFoundError: nothing was saved there, or not to its end.
    """
    file = Path(directory) / _TREE
    try:
        about = json.loads(file.read_text())
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{os.fspath(directory)} has no {_TREE}: nothing was saved there by array_serialization, or the save did not come to its end"
        ) from None
    if about.get("version") != VERSION:
        raise ValueError(
            f"{file} was written in version {about.get('version')} of the format; this reads version {VERSION}"
        )
    leaves = [ShapeDtypeStruct(tuple(shape), np.dtype(name)) for shape, name in about["leaves"]]
    return _tree.unflatten(read_tree(about["tree"]), leaves)


def load(directory: str | os.PathLike, shardings: Any, *, mask: Any = None) -> Any:
    """Reads a pytree of arrays from a folder; each device reads what it will hold.

    Args:
        directory: where it was saved.
        shardings: a sharding for each leaf, or a pytree prefix of them; types with a `sharding` say it, too.
        mask: a pytree prefix of bools; where it is False, no array is read, and None stands there.

    Raises:
        FileNotFoundError: nothing was saved there, or a part is not there.
        ValueError: structures that do not fit, or a sharding that does not divide a shape.
    """
    return _read(*_plan(directory, shardings, mask))


def nonblocking_load(
    directory: str | os.PathLike, shardings: Any, *, mask: Any = None
) -> PyTreeFuture:
    """As `load`, in the background; `.pytree` of what it returns has the types at once."""
    plan = _plan(directory, shardings, mask)
    return PyTreeFuture(_background.submit(_read, *plan), plan[1])


# -- writing -----------------------------------------------------------------------------------------------


def _parts(data: Any, directory: Any) -> tuple[str, list[list[tuple[str, np.ndarray]]]]:
    """What `tree.json` says, and for each leaf the parts that this process writes."""
    paths, treedef = _tree.flatten_with_path(data)
    about, parts = [], []
    for path, x in paths:
        if isinstance(x, (KeyArray, Tracer)) or not (
            is_native_array(x) or isinstance(x, HOST_VALUES)
        ):
            why = (
                "; save xlab.random.key_data(keys), and wrap_key_data after loading"
                if isinstance(x, KeyArray)
                else ""
            )
            raise ValueError(
                f"what is saved are arrays; the leaf {_tree.keystr(path) or 'given'} is of type {type(x).__name__}{why}"
            )
        aval: Any = aval_of(x)
        about.append([list(aval.shape), str(aval.dtype)])
        if is_native_array(x):
            # A part that several devices hold is the first one's to write.
            pieces = [(s.index, s.data) for s in x.addressable_shards if s.replica_id == 0]
        else:
            pieces = [((slice(None),) * len(aval.shape), x)] if client.process_index() == 0 else []
        parts.append(
            [
                (_name(_bounds(index, aval.shape)), np.asarray(piece, aval.dtype))
                for index, piece in pieces
            ]
        )
    text = json.dumps({"version": VERSION, "tree": write_tree(treedef), "leaves": about}, indent=1)
    return text, parts


def _write(text: str, parts: Sequence, root: Path, overwrite: bool) -> None:
    first = client.process_index() == 0
    if first:
        _empty(root, overwrite)
    _meet("begin", root)
    for i, pieces in enumerate(parts):
        folder = root / str(i)
        folder.mkdir(parents=True, exist_ok=True)
        for name, piece in pieces:
            (folder / name).write_bytes(piece.tobytes())
    _meet("written", root)
    if first:
        started = root / f"{_TREE}.new"
        started.write_text(text)
        started.replace(root / _TREE)
    _meet("end", root)


def _empty(root: Path, overwrite: bool) -> None:
    """Makes a folder empty that holds nothing or an earlier save."""
    root.mkdir(parents=True, exist_ok=True)
    found = sorted(root.iterdir())
    others = [p.name for p in found if not (p.name.isdecimal() or p.name.startswith(_TREE))]
    if others:
        raise RuntimeError(
            f"{root} has files that are no saved arrays ({', '.join(others[:3])}): they would be lost. Save to a folder of its own"
        )
    if found and not overwrite:
        raise ValueError(f"arrays were saved in {root} before, and overwrite=False")
    (root / _TREE).unlink(missing_ok=True)  # from here on nothing complete is there
    for p in found:
        shutil.rmtree(p) if p.is_dir() else p.unlink(missing_ok=True)


def _meet(word: str, root: Path) -> None:
    if client.process_count() > 1:
        sync_global_devices(f"array_files {word} {root}")


def _bounds(index: Sequence[slice], shape: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple(s.indices(n)[:2] for s, n in zip(index, shape))


def _name(bounds: tuple[tuple[int, int], ...]) -> str:
    return "_".join(f"{a}-{b}" for a, b in bounds) or "all"


# -- reading -----------------------------------------------------------------------------------------------


def _plan(directory: Any, shardings: Any, mask: Any) -> tuple[Path, Any, list]:
    """The folder, the types of what is there, and the sharding of each leaf, None where it is not read."""
    types = load_pytreedef(directory)
    is_leaf: Callable = lambda x: x is None or isinstance(x, (Sharding, Format, ShapeDtypeStruct))
    given = _tree.flatten_prefix("shardings", shardings, types, is_leaf)
    wanted = [True] * len(given) if mask is None else _tree.flatten_prefix("mask", mask, types)
    found = []
    for (path, _), s, read in zip(_tree.flatten_with_path(types)[0], given, wanted):
        where = s.sharding if isinstance(s, (Format, ShapeDtypeStruct)) else s
        if read and not isinstance(where, Sharding):
            raise ValueError(
                f"load() needs a sharding for {_tree.keystr(path) or 'the array'}, given {s!r}: where shall it lie?"
            )
        found.append(where if read else None)
    return Path(directory), types, found


def _read(root: Path, types: Any, shardings: list) -> Any:
    leaves, treedef = _tree.flatten(types)
    made = []
    for i, (t, sharding) in enumerate(zip(leaves, shardings)):
        if sharding is None:
            made.append(None)
            continue
        parts = [(_of_name(p.name), p) for p in (root / str(i)).glob("*")]
        made.append(
            make_array_from_callback(
                t.shape,
                sharding,
                lambda index, t=t, parts=parts, i=i: _rows(root / str(i), t, parts, index),
                t.dtype,
            )
        )
    return _tree.unflatten(treedef, made)


def _of_name(name: str) -> tuple[tuple[int, int], ...]:
    bounds = (part.split("-") for part in name.split("_")) if name != "all" else ()
    return tuple((int(a), int(b)) for a, b in bounds)


def _rows(folder: Path, t: Any, parts: list, index: Sequence[slice]) -> np.ndarray:
    """A slice of a leaf, of the parts that have some of it."""
    wanted = _bounds(index, t.shape)
    out = np.empty([b - a for a, b in wanted], t.dtype)
    got = 0
    for bounds, file in parts:
        both = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(wanted, bounds)]
        if any(a >= b for a, b in both):
            continue
        shape = tuple(b - a for a, b in bounds)
        if os.path.getsize(file) != int(np.prod(shape)) * dtypes.itemsize(t.dtype):
            raise ValueError(f"{file} has not the bytes of a part of {t}: it was cut short")
        piece = np.memmap(file, t.dtype, "r", shape=shape or (1,)).reshape(shape)
        target = tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(both, wanted))
        out[target] = piece[tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(both, bounds))]
        got += int(np.prod([b - a for a, b in both]))
    if got != out.size:
        raise FileNotFoundError(
            f"{folder} has {got} of the {out.size} elements that {_name(wanted)} needs: the files of some process are not there"
        )
    return out
