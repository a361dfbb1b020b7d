"""Every way to use an array that spans processes, against the same use of an array that is here: run in two processes of two devices.

`sweep(whole)` gives the counts; with `whole` it goes over every function of `xlab.numpy` that takes one array.
"""

from __future__ import annotations

import collections
import copy
import io
import operator
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.parallel.across import everywhere
from xlab.sharding import AxisType, Mesh, NamedSharding, P, SingleDeviceSharding

VALUE = (np.arange(32, dtype=np.float32).reshape(8, 4) - 7) / 4
REFUSALS = (
    "RuntimeError",
    "ValueError",
    "TypeError",
    "NotImplementedError",
    "BufferError",
    "AssertionError",
    "ShardingTypeError",
)
INTERNAL = ("'NoneType'", "has no attribute", "INTERNAL", "UNIMPLEMENTED", "FAILED_PRECONDITION")
FEW = ("sin", "sort", "cumsum", "argmax", "median", "transpose", "ravel", "nonzero", "unique", "mean", "var", "flip", "any", "isnan", "diff")  # fmt: skip
# Nothing that is compared: of the devices, the buffers, other processes' files, or drawn at random.
SKIPPED = {"delete", "unsafe_buffer_pointer", "on_device_size_in_bytes", "save", "savez", "load", "copy_to_host_async", "empty_like", "block_until_ready",
           "is_ready", "addressable_data", "addressable_shards", "global_shards", "committed", "is_fully_addressable", "is_fully_replicated", "__dir__",
           "reduce_precision", "fromfile", "frombuffer", "save_device_memory_profile", "is_deleted"}  # fmt: skip


def spread(value: np.ndarray, sharding: NamedSharding) -> Any:
    return xlab.make_array_from_callback(value.shape, sharding, lambda index: value[index])


def meshes() -> tuple[Mesh, Mesh, Mesh]:
    devices = np.array(xlab.devices(), dtype=object)
    auto = AxisType.Auto
    return (
        Mesh(devices, ("x",), axis_types=(auto,)),
        Mesh(devices.reshape(2, -1), ("p", "d"), axis_types=(auto,) * 2),
        Mesh(devices[::-1], ("x",), axis_types=(auto,)),
    )


def arrays() -> dict[str, tuple[Any, np.ndarray]]:
    """Arrays that are not wholly here, and what they hold."""
    row, grid, reverse = meshes()
    explicit = Mesh(row.devices, ("e",), axis_types=(AxisType.Explicit,))
    laid = {
        "rows": NamedSharding(row, P("x")),
        "columns": NamedSharding(row, P(None, "x")),
        "copies": NamedSharding(row, P()),
        "blocks": NamedSharding(grid, P("d", "p")),
        "by process": NamedSharding(grid, P("p")),
        "same in each": NamedSharding(grid, P("d")),
        "reversed": NamedSharding(reverse, P("x")),
        "explicit": NamedSharding(explicit, P("e")),
        "pinned": NamedSharding(row, P("x"), memory_kind="pinned_host"),
    }
    return {name: (spread(VALUE, s), VALUE) for name, s in laid.items()}


def destinations() -> dict[str, Any]:
    row, grid, reverse = meshes()
    own = np.array(xlab.local_devices(), dtype=object)
    one = np.array([xlab.local_devices(i)[0] for i in range(xlab.process_count())], dtype=object)
    auto = (AxisType.Auto,)
    return {
        "rows": NamedSharding(row, P("x")),
        "columns": NamedSharding(row, P(None, "x")),
        "copies": NamedSharding(row, P()),
        "blocks": NamedSharding(grid, P("d", "p")),
        "transposed": NamedSharding(grid, P("p", "d")),
        "both": NamedSharding(grid, P(("d", "p"))),
        "reversed": NamedSharding(reverse, P("x")),
        "reversed columns": NamedSharding(reverse, P(None, "x")),
        "pinned": NamedSharding(row, P("x"), memory_kind="pinned_host"),
        "pinned copies": NamedSharding(row, P(), memory_kind="pinned_host"),
        "here": NamedSharding(Mesh(own, ("o",), axis_types=auto), P("o")),
        "one of each": NamedSharding(Mesh(one, ("q",), axis_types=auto), P("q")),
        "device here": own[0],
        "device there": xlab.devices()[-1],
        "device first": SingleDeviceSharding(xlab.devices()[0]),
        "nowhere": None,
        "host": xlab.memory.Space.Host,
    }


def uses(whole: bool) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Names and functions of one array."""
    for name in sorted(
        n
        for n in dir(jnp.ones(2))
        if n not in SKIPPED and (n.startswith("__") or not n.startswith("_"))
    ):
        yield f"x.{name}", lambda x, name=name: m() if callable(m := getattr(x, name)) else m
    for name in (
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "matmul",
        "eq",
        "lt",
        "ge",
    ):
        act = getattr(operator, name)
        if name != "matmul":
            yield f"x {name} 2", lambda x, act=act: act(x, 2)
            yield f"2 {name} x", lambda x, act=act: act(2, x)
            yield f"x {name} x", lambda x, act=act: act(x, x)
            yield f"x {name} numpy", lambda x, act=act: act(x, np.asarray(VALUE))
            yield f"x {name} array", lambda x, act=act: act(x, jnp.asarray(VALUE))
        else:
            yield "x matmul x.T", lambda x: x @ x.T
    for name, convert in (
        ("bool", bool),
        ("int", int),
        ("float", float),
        ("complex", complex),
        ("index", operator.index),
        ("len", len),
        ("list", list),
        ("hash", hash),
        ("round", round),
        ("abs", abs),
        ("reversed", lambda x: list(reversed(x))),
    ):
        yield name, convert
        yield f"{name} of a sum", lambda x, convert=convert: convert((x.sum() * 4).astype(int))
    for name, index in (
        ("0", 0),
        ("-1", -1),
        ("1:3", slice(1, 3)),
        ("...", ...),
        ("None", None),
        ("mask", VALUE[:, 0] > 0),
        ("ints", np.array([5, 0, 2])),
        ("2d", (slice(None), 1)),
        ("::-1", slice(None, None, -1)),
        ("mixed", (np.array([1, 2]), slice(0, 2))),
    ):
        yield f"x[{name}]", lambda x, index=index: x[index]
        yield f"x.at[{name}]", lambda x, index=index: x.at[index].set(0)
    yield "in", lambda x: 0.25 in x
    yield "dtype=f64", lambda x: np.asarray(x, dtype=np.float64)
    yield "np.array", np.array
    yield "np.sum", np.sum
    yield "np.save", lambda x: np.save(io.BytesIO(), x)
    yield "memoryview", lambda x: np.asarray(memoryview(x))
    yield "np.from_dlpack", np.from_dlpack
    yield "pickle", lambda x: pickle.loads(pickle.dumps(x))
    yield "copy", copy.copy
    yield "deepcopy", copy.deepcopy
    yield "device_get", xlab.device_get
    yield "format", lambda x: format(x.sum(), ".1f")
    yield "jit", xlab.jit(lambda v: v * 2 + 1)
    yield "closed over", lambda x: xlab.jit(lambda v: v + x)(x)
    yield "literal", lambda x: xlab.jit(lambda v: v + x[0, 0])(x)
    yield "grad", xlab.grad(lambda v: (v * v).sum())
    yield "vmap", xlab.vmap(lambda v: v - v.mean())
    yield "scan", lambda x: lax.scan(lambda c, v: (c + v, c), jnp.zeros(4), x)
    yield "cond", lambda x: lax.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, x)
    yield "debug_nans", lambda x: _with_nans(x)
    yield "make_jaxpr", lambda x: bool(str(xlab.make_jaxpr(lambda v: v + x)(x)))
    yield "summarize", lambda x: xlab.observe.summarize(x).type
    yield "live_arrays", lambda x: sum(a.nbytes for a in xlab.live_arrays()) > 0
    yield "tree", lambda x: xlab.tree.map(lambda v: v + 1, {"a": x})
    yield "ones_like", jnp.ones_like
    yield "random", lambda x: xlab.random.normal(xlab.random.key(0), (3,)) + x[:3, 0]
    for name in (
        sorted(n for n in dir(jnp) if not n.startswith("_") and n not in SKIPPED) if whole else FEW
    ):
        fun = getattr(jnp, name)
        if callable(fun) and not isinstance(fun, type):
            yield f"jnp.{name}", fun


def _with_nans(x):
    with xlab.debug_nans(True):
        return x * 2


def plain(out: Any) -> Any:
    """A result with its arrays as NumPy arrays; those that span processes are gathered by all."""
    if isinstance(out, xlab.Array) and not isinstance(out, xlab.core.Tracer):
        return (
            everywhere(out)
            if not out.is_fully_addressable and len(out.sharding.device_set) > 1
            else np.asarray(out)
        )
    if isinstance(out, dict):
        return {k: plain(v) for k, v in out.items()}
    if isinstance(out, (list, tuple)):
        return [plain(v) for v in out]
    return out


def same(got: Any, want: Any) -> bool:
    if isinstance(want, dict):
        return isinstance(got, dict) and all(same(got[k], v) for k, v in want.items())
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(same, got, want))
    if isinstance(want, (np.ndarray, np.generic, int, float, complex, bool)):
        return np.shape(got) == np.shape(want) and np.allclose(
            np.asarray(got), np.asarray(want), rtol=1e-5, atol=1e-6, equal_nan=True
        )
    return True  # a text, a device, a sharding: of another array


def attempt(act: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "value", plain(act())
    except Exception as e:
        return f"{type(e).__name__}", str(e)


def sweep(whole: bool) -> collections.Counter:
    counts: collections.Counter = collections.Counter()
    wrong = []

    def note(what, want, got):
        counts["calls"] += 1
        counts["values" if got[0] == "value" else "refused"] += 1
        if got[0] == "value":
            if want[0] == "value" and not same(got[1], want[1]):
                wrong.append((what, "other value", str(want[1])[:200], str(got[1])[:200]))
        elif want[0] == "value" and (got[0] not in REFUSALS or any(w in got[1] for w in INTERNAL)):
            wrong.append((what, "unhelpful", got))

    spanning = arrays()
    here = jnp.asarray(VALUE)
    chosen = spanning if whole else {k: spanning[k] for k in ("rows", "blocks", "same in each")}
    for way, act in uses(whole):
        want = attempt(lambda act=act: act(here))
        for name, (x, _) in chosen.items():
            if want[0] == "value" or whole:
                note(f"{way} of {name}", want, attempt(lambda act=act, x=x: act(x)))
    sources = {
        **{k: x for k, (x, _) in spanning.items()},
        "numpy": VALUE,
        "uncommitted": jnp.asarray(VALUE),
    }
    for name, x in sources.items():
        for to, place in destinations().items():
            got = attempt(lambda x=x, place=place: _put(x, place))
            note(f"device_put of {name} to {to}", ("value", VALUE), got)
            if (
                to
                in (
                    "rows",
                    "copies",
                    "blocks",
                    "transposed",
                    "both",
                    "reversed",
                    "reversed columns",
                )
                and got[0] != "value"
            ):
                wrong.append((f"device_put of {name} to {to}", "refused", got))
    assert not wrong, "\n".join(map(str, wrong))
    return counts


def _put(x, place):
    out = xlab.device_put(x, place)
    for shard in out.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), VALUE[shard.index])
    if isinstance(place, NamedSharding):
        assert out.sharding == place, (out.sharding, place)
    return VALUE if not out.is_fully_addressable else out
