"""Annotations for the compiler: where operations run (`compute_on`), and any others (`set_xla_metadata`, `xla_metadata_call`).

They become frontend attributes of the operations that are lowered within, and of those of their derivatives. What a compiler does not
know it ignores; on CPUs nothing else changes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from xlab import tree as _tree
from xlab.compile.jit import jit
from xlab.config import idle_argument
from xlab.core.hi_states import typed
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.core.trace import annotated
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.calls import ParamUpdater, define_call
from xlab.interpreters.mlir.annotations import VALUE_MARK, attribute_text
from xlab.lax.control.common import args_tree, trace_body
from xlab.lax.device_put import ArrayCopySemantics, device_put_p
from xlab.sharding.typed import entries

__all__ = [
    "compute_on",
    "compute_on2",
    "scheduling_group",
    "set_xla_metadata",
    "xla_metadata_call",
    "xla_metadata_call_p",
    "xla_metadata_value_p",
]

_TYPES = {"device_host": "host", "device": "dense", "tpu_sparsecore": "sparseoffload"}
_STREAM = "gpu_stream:"


def compute_on(compute_type: str) -> Any:
    """Says where the operations of a block, or of a decorated function, run.

    Args:
        compute_type: `"device_host"` for the host that a device belongs to, `"device"` for the device itself, `"tpu_sparsecore"`, or
            `"gpu_stream:1"` with the number of a stream.

    Returns:
        A context manager that is a decorator as well.

    Raises:
        TypeError, ValueError: when it is none of these.

    Example:
        >>> import xlab, xlab.numpy as jnp
        >>> @xlab.jit
        ... def f(x):
        ...     with compute_on("device_host"):
        ...         y = jnp.sin(x)
        ...     return y + 1
        >>> '_xla_compute_type = "host"' in f.lower(1.0).as_text()
        True
    """
    if not isinstance(compute_type, str):
        raise TypeError(
            f"`compute_on`'s compute_type argument must be a string, got {compute_type!r} of type {type(compute_type).__name__}"
        )
    stream = compute_type.removeprefix(_STREAM)
    if compute_type in _TYPES:
        found: dict = {"_xla_compute_type": _TYPES[compute_type], **_NO_STREAM}
    elif stream != compute_type and stream:
        found = {"_xla_compute_type": None, "_xla_stream_annotation": stream, "inlineable": "false"}
    else:
        raise ValueError(
            f"Invalid compute type {compute_type}. Current supported values are `device_host`, `device`, `tpu_sparsecore`, and "
            f"`gpu_stream:#`."
        )
    return _block(f"compute_on({compute_type})", found)


def compute_on2(
    f: Callable | None = None,
    *,
    compute_type: str,
    out_memory_spaces: Any,
    compiler_options: dict | None = None,
) -> Callable:
    """A function that runs as one call somewhere, as `compute_on` says it, with its results in given memories.

    Args:
        f: the function; without it, a decorator.
        compute_type: as `compute_on` takes it.
        out_memory_spaces: a `memory.Space` for all results, or a tree prefix of them.
        compiler_options: taken and without effect: a part of a program is compiled with the whole.

    Example:
        >>> import xlab
        >>> f = compute_on2(lambda x: x * 2, compute_type="device_host", out_memory_spaces=xlab.memory.Space.Device)
        >>> float(f(3.0))
        6.0
    """
    if f is None:
        return functools.partial(
            compute_on2,
            compute_type=compute_type,
            out_memory_spaces=out_memory_spaces,
            compiler_options=compiler_options,
        )
    idle_argument(
        "compute_on2",
        "compiler_options",
        compiler_options,
        "a part of a program is compiled with the whole",
    )
    run = compute_on(compute_type)(jit(f, name="compute_on"))

    @functools.wraps(f)
    def called(*args, **kwargs):
        outs = run(*args, **kwargs)
        leaves, structure = _tree.flatten(outs)
        where = _tree.broadcast_prefix(out_memory_spaces, outs)
        n = len(leaves)
        moved = device_put_p.bind(
            *leaves,
            devices=tuple(where),
            srcs=(None,) * n,
            copy_semantics=(ArrayCopySemantics.REUSE_INPUT,) * n,
        )
        return _tree.unflatten(structure, moved)

    return called


_NO_STREAM = {"_xla_stream_annotation": None, "inlineable": None}


@contextmanager
def _block(name: str, annotations: dict) -> Iterator[None]:
    with annotated(name, annotations):
        yield


def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """Attaches metadata to operations: those of a block or a decorated function, or the one that made a value.

    Args:
        x: a tree of values, to annotate what made them; without it, a context manager that is a decorator as well.
        kwargs: names and values, which are written as text. Within another block None takes a name away.

    Returns:
        The values, or the context manager.

    Example:
        >>> import xlab, xlab.numpy as jnp
        >>> f = xlab.jit(lambda x: set_xla_metadata(jnp.sin(x), stage="first") + 1)
        >>> 'stage = "first"' in f.lower(1.0).as_text()
        True
    """
    given = {k: None if v is None else _text(v) for k, v in kwargs.items()}
    if x is None:
        label = ", ".join(f"{k}={v}" for k, v in given.items())
        return _block(f"xla_metadata({label})".replace("/", "|"), given)
    pairs = tuple(sorted((k, v) for k, v in given.items() if v is not None))
    leaves, structure = _tree.flatten(x)
    return _tree.unflatten(
        structure, [xla_metadata_value_p.bind(leaf, xla_metadata_kvs=pairs) for leaf in leaves]
    )


def _text(value: Any) -> str:
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"metadata values are text, numbers or bools, got {value!r}, which is not hashable"
        ) from None
    return str(value).lower() if isinstance(value, bool) else str(value)


def xla_metadata_call(f: Callable, **meta: Any) -> Callable:
    """A function whose calls are one operation in the program, with metadata for the compiler.

    Args:
        f: the function.
        meta: names and values, which are written as text.

    Example:
        >>> import xlab
        >>> "stage" in xlab.jit(xla_metadata_call(lambda x: x * 2, stage=1)).lower(1.0).as_text()
        True
    """
    pairs = tuple(sorted((k, _text(v)) for k, v in meta.items()))

    @functools.wraps(f)
    def called(*args):
        flat, in_tree = args_tree(*args)
        closed, consts, out_tree = trace_body(f, in_tree, [typed(x) for x in flat])
        outs = xla_metadata_call_p.bind(*consts, *flat, jaxpr=closed, xla_metadata_kvs=pairs)
        return _tree.unflatten(out_tree, outs)

    return called


def scheduling_group(name: str) -> Callable:
    """A decorator: calls of the function are scheduled together, as one group of this name.

    Example:
        >>> import xlab
        >>> f = scheduling_group(name="first")(lambda x: x * 2)
        >>> 'scheduling_group = "first"' in xlab.jit(f).lower(1.0).as_text()
        True
    """
    return functools.partial(xla_metadata_call, scheduling_group=name)


# -- a value ----------------------------------------------------------------------------------------------

xla_metadata_value_p = Primitive("xla_metadata_value")
xla_metadata_value_p.def_abstract_eval(lambda x, *, xla_metadata_kvs: x)
sharding_rules[xla_metadata_value_p] = lambda ins, outs, **_: [entries(ins[0])]


@functools.partial(ad.primitive_jvps.__setitem__, xla_metadata_value_p)
def _value_jvp(primals, tangents, **params):
    # What is said of a value is not said of its tangent.
    return xla_metadata_value_p.bind(*primals, **params), tangents[0]


ad.primitive_transposes.excuse(xla_metadata_value_p, "tangents do not pass through it")


@functools.partial(batching.primitive_batchers.__setitem__, xla_metadata_value_p)
def _value_batch(operands, dims, **params):
    return xla_metadata_value_p.bind(*operands, **params), dims[0]


def _value_lowering(ctx, x, *, xla_metadata_kvs):
    number = ctx.module.annotations.number(xla_metadata_kvs)
    t = ctx.type_in()
    return ctx.op(
        f'stablehlo.custom_call @{VALUE_MARK}({x}) {{backend_config = "{number}"}} : ({t}) -> {t}'
    )


mlir.register_text_lowering(xla_metadata_value_p, _value_lowering)

# -- a call -----------------------------------------------------------------------------------------------

xla_metadata_call_p = Primitive("xla_metadata_call", multiple_results=True)
xla_metadata_call_p.def_effectful_abstract_eval(
    lambda *avals, jaxpr, **_: (jaxpr.out_avals, jaxpr.effects)
)
define_call(xla_metadata_call_p, "jaxpr", ParamUpdater())


def _call_lowering(ctx, *xs, jaxpr, xla_metadata_kvs):
    return ctx.call(
        ("xla_metadata_call", jaxpr, xla_metadata_kvs),
        "xla_metadata_call",
        jaxpr,
        xs,
        attribute_text(xla_metadata_kvs),
    )


mlir.register_text_lowering(xla_metadata_call_p, _call_lowering)

costs.register(costs.free, xla_metadata_value_p)
