"""Arrays over many devices in files of TensorStore's, such as zarr, written in the background; libraries' checkpoints are made of them.

The package `tensorstore` is imported when first used. `array_files` does without it, in a format of its own.
"""

from __future__ import annotations

import abc
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from xlab.backend import client, processes
from xlab.core.array import KeyArray, is_native_array
from xlab.parallel.assemble import make_array_from_callback
from xlab.sharding import Format

__all__ = [
    "GlobalAsyncCheckpointManager",
    "GlobalAsyncCheckpointManagerBase",
    "get_tensorstore_spec",
]

_BUCKETS = {"gs://": "gcs", "s3://": "s3"}
_meetings = itertools.count()


def _tensorstore() -> Any:
    try:
        import tensorstore
    except ImportError as error:
        raise ImportError(
            "arrays are written to zarr files by the package `tensorstore`, which is not installed: pip install tensorstore. "
            "array_serialization.pytree_serialization does without it, in a format of its own"
        ) from error
    return tensorstore


def get_tensorstore_spec(
    ckpt_path: str | os.PathLike,
    *,
    ocdbt: bool = False,
    process_idx: int | None = None,
    arr: Any = None,
    driver: str = "zarr",
) -> dict[str, Any]:
    """Where TensorStore keeps one array.

    Args:
        ckpt_path: a file's path, or an address of a bucket, `gs://` or `s3://`.
        ocdbt: whether the arrays of a folder share a database, one key each.
        process_idx: a process, whose folder it lies in.
        arr: an array, whose shape and parts the file has.
        driver: the format, `zarr` or `zarr3`.

    Raises:
        ValueError: a path of a database that depends on the current folder; a shape is asked of another format.

    Example:
        >>> get_tensorstore_spec("/tmp/run/w")
        {'driver': 'zarr', 'kvstore': {'driver': 'file', 'path': '/tmp/run/w'}}
    """
    text = os.fspath(ckpt_path)
    scheme = next((s for s in _BUCKETS if text.startswith(s)), "")
    bucket, _, rest = text[len(scheme) :].partition("/") if scheme else ("", "", text)
    path = PurePosixPath(rest)
    folder = path.parent if process_idx is None else path.parent / f"process_{process_idx}"
    if ocdbt and not scheme and not path.is_absolute():
        raise ValueError(
            f"a database of arrays is opened under one path by all processes: give an absolute one, got {text!r}"
        )
    store: dict[str, Any] = (
        {"driver": _BUCKETS[scheme], "bucket": bucket} if scheme else {"driver": "file"}
    )
    if ocdbt:
        base = {**store, "path": str(folder)}
        store = {"driver": "ocdbt", "base": base, "path": path.name}
    else:
        store["path"] = str(folder / path.name)
    spec = {"driver": driver, "kvstore": store}
    return spec if arr is None else {**spec, "metadata": _metadata(driver, arr)}


def _metadata(driver: str, x: Any) -> dict[str, Any]:
    """What a format writes down of an array; a part of the file is one device's."""
    parts = list(x.sharding.shard_shape(x.shape))
    if driver == "zarr":
        return {"compressor": {"id": "zstd"}, "shape": x.shape, "chunks": parts}
    if driver == "zarr3":
        grid = {"name": "regular", "configuration": {"chunk_shape": parts}}
        return {"codecs": [], "shape": x.shape, "data_type": x.dtype.name, "chunk_grid": grid}  # fmt: skip
    raise ValueError(
        f"the shape of an array is known to be written as zarr or zarr3, not as {driver!r}: leave arr out"
    )


class GlobalAsyncCheckpointManagerBase(abc.ABC):
    """What writes and reads arrays of many processes; libraries derive their own from it."""

    @abc.abstractmethod
    def wait_until_finished(self) -> None:
        """Waits for what is being written, and raises what was raised there."""

    @abc.abstractmethod
    def check_for_errors(self) -> None:
        """Raises what was raised in the background so far."""

    @abc.abstractmethod
    def serialize(
        self,
        arrays: Sequence[Any],
        tensorstore_specs: Sequence[dict[str, Any]],
        *,
        on_commit_callback: Callable[[], None] | None = None,
    ) -> None:
        """Writes arrays."""

    @abc.abstractmethod
    def deserialize(
        self,
        shardings: Sequence[Any],
        tensorstore_specs: Sequence[dict[str, Any]],
        global_shapes: Sequence[Any] | None = None,
        dtypes: Sequence[Any] | None = None,
    ) -> list[Any]:
        """Reads arrays."""


class GlobalAsyncCheckpointManager(GlobalAsyncCheckpointManagerBase):
    """Writes arrays in the background, each process what its devices hold, and reads them under any sharding.

    Args:
        timeout_secs: how long processes wait for one another at the end of a save.

    Example:
        >>> manager = GlobalAsyncCheckpointManager(timeout_secs=60)
        >>> manager.wait_until_finished()  # nothing is being written
    """

    def __init__(self, timeout_secs: float = 300):
        self._timeout = timeout_secs
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def serialize(
        self,
        arrays: Sequence[Any],
        tensorstore_specs: Sequence[dict[str, Any]],
        *,
        on_commit_callback: Callable[[], None] | None = None,
        transaction: Any = None,
    ) -> None:
        """Copies arrays to the host and writes them in the background, after the save before is at its end.

        Args:
            arrays: of any shape and dtype but keys, over any devices and processes.
            tensorstore_specs: where each is written, see `get_tensorstore_spec`.
            on_commit_callback: called by the first process when all have written.
            transaction: one of TensorStore's that what is written belongs to, which its owner commits.

        Raises:
            ValueError: what is given is no array, or there are more or fewer places than arrays.
            ImportError: TensorStore is not installed.
        """
        ts = _tensorstore()
        _same_number("arrays", arrays, "tensorstore_specs", tensorstore_specs)
        for i, x in enumerate(arrays):
            if isinstance(x, KeyArray) or not is_native_array(x):
                why = "; write xlab.random.key_data(keys)" if isinstance(x, KeyArray) else ""
                raise ValueError(
                    f"what is written are arrays on devices; number {i} is of type {type(x).__name__}{why}"
                )
        self.wait_until_finished()
        # A part that several devices hold is the first one's to write.
        parts = [
            [(s.index, np.array(s.data)) for s in x.addressable_shards if s.replica_id == 0]
            for x in arrays
        ]
        stores = [_created(ts, spec, x, transaction) for x, spec in zip(arrays, tensorstore_specs)]
        number = next(_meetings)

        def write() -> None:
            writes = [
                store.result()[index].write(part)
                for store, pieces in zip(stores, parts)
                for index, part in pieces
            ]
            for each in writes:
                each.copy.result() if transaction is not None else each.result()

        def commit() -> None:
            if on_commit_callback is not None and client.process_index() == 0:
                on_commit_callback()

        def run() -> None:
            try:
                self._together(f"{number} written", write)
                self._together(f"{number} committed", commit)
            except Exception as error:
                self._error = error

        self._thread = threading.Thread(target=run, name="xlab-tensorstore-files")
        self._thread.start()

    def serialize_with_paths(
        self,
        arrays: Sequence[Any],
        paths: Sequence[str],
        *,
        on_commit_callback: Callable[[], None] | None = None,
        transaction: Any = None,
    ) -> None:
        """As `serialize`, to zarr files of these paths."""
        specs = [get_tensorstore_spec(path) for path in paths]
        self.serialize(arrays, specs, on_commit_callback=on_commit_callback, transaction=transaction)  # fmt: skip

    def deserialize(
        self,
        shardings: Sequence[Any],
        tensorstore_specs: Sequence[dict[str, Any]],
        global_shapes: Sequence[Any] | None = None,
        dtypes: Sequence[Any] | None = None,
        concurrent_gb: int = 32,
    ) -> list[Any]:
        """Reads arrays; each device reads what it will hold.

        Args:
            shardings: where each will lie.
            tensorstore_specs: where each is written.
            global_shapes: other shapes than they were written with: what is beyond is left out, what is missing is zero.
            dtypes: other dtypes.
            concurrent_gb: more than one array is never held on the host at once, so that this is met by itself.

        Raises:
            ValueError: nothing is written there, there are more or fewer places than shardings, or a sharding does not divide a shape.
            ImportError: TensorStore is not installed.
        """
        ts = _tensorstore()
        _same_number("shardings", shardings, "tensorstore_specs", tensorstore_specs)
        shapes = [None] * len(shardings) if global_shapes is None else global_shapes
        kinds = [None] * len(shardings) if dtypes is None else dtypes
        _same_number("shardings", shardings, "global_shapes", shapes)
        _same_number("shardings", shardings, "dtypes", kinds)
        stores = [ts.open(ts.Spec(spec), open=True) for spec in tensorstore_specs]
        return [
            _read(
                store.result(), where.sharding if isinstance(where, Format) else where, shape, kind
            )
            for store, where, shape, kind in zip(stores, shardings, shapes, kinds)
        ]

    def deserialize_with_paths(
        self,
        shardings: Sequence[Any],
        paths: Sequence[str],
        global_shapes: Sequence[Any] | None = None,
        dtypes: Sequence[Any] | None = None,
        concurrent_gb: int = 32,
    ) -> list[Any]:
        """As `deserialize`, of zarr files of these paths."""
        specs = [get_tensorstore_spec(path) for path in paths]
        return self.deserialize(shardings, specs, global_shapes, dtypes, concurrent_gb)

    def check_for_errors(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def wait_until_finished(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check_for_errors()

    def _together(self, word: str, act: Callable[[], None]) -> None:
        """Acts, and waits until every process has; an error in one of them is one in all, and none waits for what will not come."""
        if client.process_count() == 1:
            return act()
        service, mine, count = processes.coordination()
        key = f"xlab/tensorstore_files/{word}/"
        error: Exception | None = None
        try:
            act()
        except Exception as raised:
            error = raised
            service.key_value_set(f"{key}{mine}", f"{type(raised).__name__}: {raised}"[:2000])
        service.wait_at_barrier(key, int(self._timeout * 1000))
        if error is not None:
            raise error
        said = dict(service.key_value_dir_get(key))
        failed = [i for i in range(count) if f"{key}{i}" in said]
        if failed:
            raise RuntimeError(
                f"the arrays are not saved: process {failed[0]} of {count} failed with {said[f'{key}{failed[0]}']}"
            )


def _same_number(name: str, given: Sequence[Any], other: str, others: Sequence[Any]) -> None:
    if len(given) != len(others):
        raise ValueError(f"{len(given)} {name} and {len(others)} {other} were given")


def _created(ts: Any, spec: dict[str, Any], x: Any, transaction: Any) -> Any:
    """The file of an array, which the first process makes; a future."""
    if "metadata" not in spec and spec["driver"] in ("zarr", "zarr3"):
        spec = {**spec, "metadata": _metadata(spec["driver"], x)}
    options = {"dtype": ts.dtype(x.dtype), "shape": x.shape, "open": True}
    if client.process_index() == 0:
        options["create"] = True
    else:
        options["assume_metadata"] = True  # as the first process writes it
    return ts.open(ts.Spec(spec), transaction=transaction, **options)


def _read(store: Any, sharding: Any, shape: Any, dtype: Any) -> Any:
    shape = tuple(store.shape if shape is None else shape)
    if len(shape) != len(store.shape):
        raise ValueError(
            f"an array of {len(store.shape)} dimensions is written there, of shape {store.shape}, and {shape} was asked for"
        )
    dtype = np.dtype(store.dtype.numpy_dtype if dtype is None else dtype)
    bounds = lambda index: tuple(s.indices(n)[:2] for s, n in zip(index, shape))
    wanted = {bounds(i) for i in sharding.addressable_devices_indices_map(shape).values()}
    reads = {
        each: store[
            tuple(slice(a, max(a, min(b, n))) for (a, b), n in zip(each, store.shape))
        ].read()
        for each in wanted
        if all(a < n for (a, _), n in zip(each, store.shape))
    }

    def part(index: tuple[slice, ...]) -> np.ndarray:
        mine = bounds(index)
        found = reads[mine].result() if mine in reads else np.zeros((0,) * len(shape), dtype)
        sizes = tuple(b - a for a, b in mine)
        if found.shape != sizes:
            whole = np.zeros(sizes, found.dtype)
            whole[tuple(map(slice, found.shape))] = found
            found = whole
        return found.astype(dtype)

    return make_array_from_callback(shape, sharding, part, dtype)
