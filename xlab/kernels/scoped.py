"""References that live for a part of a program: `run_scoped`, `with_scoped`, `run_state`.

The primitive `run_scoped` takes what its program closes over. The inputs of its parameter `jaxpr` are those operands and then the
references it makes, with uninitialized contents (semaphores at zero); its outputs are the results. `collective_axes` names the axes of the
grid or mesh along which all programs share them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from xlab import tree as _tree
from xlab.compile.tracing import function_name
from xlab.core import effects as _effects
from xlab.core.jaxpr import ClosedJaxpr, eval_jaxpr
from xlab.core.primitive import Primitive
from xlab.core.refs import AbstractRef, Ref
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters.discharge import discharge_rules, evaluate
from xlab.kernels.memory import as_ref_aval
from xlab.kernels.semaphores import is_semaphore
from xlab.lax.control.common import args_tree, reorder, trace_body
from xlab.lax.ref_functions import freeze, new_ref
from xlab.lax.refs import uninitialized

T = TypeVar("T")


def run_scoped(
    f: Callable[..., Any],
    *types: Any,
    collective_axes: Hashable | tuple[Hashable, ...] = (),
    **kw_types: Any,
) -> Any:
    """Calls a function with new references, which end when it returns.

    Args:
        f: called with one reference per type. What it returns is the result; references may not be returned.
        types: types of references, or trees of them: `MemorySpace.LOCAL(shape, dtype)`, `SemaphoreType.DMA`. Their contents are
            uninitialized at first, semaphores are zero.
        collective_axes: names of axes along which all programs share one allocation.
        kw_types: types of references that `f` gets by keyword.

    Raises:
        ValueError: something among the types describes no array.
        NotImplementedError: `collective_axes` in a compiled program, whose cores run one after the other.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab.kernels import MemorySpace, run_scoped
        >>> def body(total):
        ...     total[...] = jnp.zeros(2)
        ...     total[1] += 3.0
        ...     return total[...]
        >>> run_scoped(body, MemorySpace.LOCAL((2,), "float32")).tolist()
        [0.0, 3.0]
    """
    wanted, tree = _tree.flatten((types, kw_types))
    avals = [as_ref_aval(t) for t in wanted]
    axes = collective_axes if isinstance(collective_axes, tuple) else (collective_axes,)

    def called(*refs):
        args, kwargs = _tree.unflatten(tree, refs)
        return f(*args, **kwargs)

    called.__name__ = function_name(f)
    _, in_tree = args_tree(*[0] * len(avals))
    closed, captured, out_tree = trace_body(called, in_tree, avals)
    return _tree.unflatten(
        out_tree, run_scoped_p.bind(*captured, jaxpr=closed, collective_axes=axes)
    )


def with_scoped(
    *types: Any, collective_axes: Hashable | tuple[Hashable, ...] = (), **kw_types: Any
) -> Callable[[Callable], Callable]:
    """Decorates a function so that it is called with new references after its own arguments.

    Args:
        types, kw_types: types of references, by position and by keyword, as of `run_scoped`.
        collective_axes: names of axes along which all programs share one allocation.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab.kernels import MemorySpace, with_scoped
        >>> @with_scoped(MemorySpace.LOCAL((2,), "int32"))
        ... def twice(x, ref):
        ...     ref[...] = x
        ...     return ref[...] + ref[...]
        >>> twice(jnp.arange(2)).tolist()
        [0, 2]
    """

    def decorate(f):
        @functools.wraps(f)
        def wrapped(*args, **kwargs):
            def body(*refs, **named):
                return f(*args, *refs, **kwargs, **named)

            body.__name__ = function_name(f)
            return run_scoped(body, *types, collective_axes=collective_axes, **kw_types)

        return wrapped

    return decorate


def run_state(f: Callable[[Any], None]) -> Callable[[T], T]:
    """Makes a function that changes references one that returns new values.

    Args:
        f: takes a tree of references and changes them; returns None.

    Returns:
        A function from a tree of arrays to their last values.

    Raises:
        ValueError: `f` returns something.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> from xlab.kernels import run_state
        >>> def double_first(ref):
        ...     ref[0] = 2 * ref[0]
        >>> run_state(double_first)(jnp.ones(3)).tolist()
        [2.0, 1.0, 1.0]
    """

    @functools.wraps(f)
    def run(values: T) -> T:
        refs = _tree.map(new_ref, values)
        result = f(refs)
        if result is not None:
            raise ValueError(
                f"the function given to run_state changes its references and returns None; {function_name(f)} returned {result!r}"
            )
        return _tree.map(freeze, refs)

    return run


# -- run_scoped ---------------------------------------------------------------------------------------------


def first_value(aval: AbstractRef) -> Any:
    """What a new scoped reference of a type holds."""
    return uninitialized(aval.inner_aval)


def _made(closed: ClosedJaxpr, operands) -> list[AbstractRef]:
    """The types of the references that are made."""
    return closed.in_avals[len(operands) :]


run_scoped_p = Primitive("run_scoped", multiple_results=True, auto_pvary=False)
run_scoped_p.takes_refs = True
mlir.lowerings.excuse(run_scoped_p, "references are discharged before lowering")


@run_scoped_p.def_effectful_abstract_eval
def _aval(*operands, jaxpr, collective_axes):
    n = len(operands)
    effects = _effects.moved(jaxpr.effects, lambda i: i if i < n else None)
    return jaxpr.out_avals, effects | {_effects.INTERNAL_REF}


@run_scoped_p.def_impl
def _impl(*operands, jaxpr, collective_axes):
    refs = [Ref(aval, first_value(aval)) for aval in _made(jaxpr, operands)]
    return eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *operands, *refs)


def _discharge(eqn, ref_mask, operands):
    if eqn.params["collective_axes"]:
        raise NotImplementedError(
            f"run_scoped shares its references along {eqn.params['collective_axes']}, which a compiled program cannot do: it runs its "
            f"cores one after the other. Run the kernel with interpret='value'."
        )
    closed = eqn.params["jaxpr"]
    made = _made(closed, operands)
    outs, values = evaluate(
        closed.jaxpr,
        closed.consts,
        [*operands, *map(first_value, made)],
        [*ref_mask, *[True] * len(made)],
    )
    n = len(operands)
    return {i: values[i] for i in _effects.written(closed.effects) if 0 <= i < n}, outs


def _jvp(primals, tangents, *, jaxpr, collective_axes):
    n, made = len(primals), _made(jaxpr, primals)
    nonzero = [type(t) is not ad.Zero for t in tangents]
    # The tangent of a scoped reference is scoped as well; integers and semaphores have none.
    moving = [a.to_tangent_aval().dtype == a.dtype and not is_semaphore(a) for a in made]
    new, nonzero_out = ad.jvp_jaxpr(jaxpr, [*nonzero, *moving], False)
    given = sum(nonzero)
    order = [
        *range(n),
        *range(n + len(made), n + len(made) + given),
        *range(n, n + len(made)),
        *range(n + len(made) + given, len(new.in_avals)),
    ]
    operands = [*primals, *[t for t, nz in zip(tangents, nonzero) if nz]]
    outs = run_scoped_p.bind(*operands, jaxpr=reorder(new, order), collective_axes=collective_axes)
    count = len(nonzero_out)
    rest = iter(outs[count:])
    return outs[:count], [next(rest) if nz else ad.Zero.of(x) for nz, x in zip(nonzero_out, outs)]


def _batch(axis, operands, dims, *, jaxpr, collective_axes):
    operands, batched = batching.move_batch_dims_to_front(operands, dims)
    made = [not is_semaphore(a) for a in _made(jaxpr, operands)]
    new, batched_out = batching.batch_jaxpr(jaxpr, axis, [*batched, *made], False)
    outs = run_scoped_p.bind(*operands, jaxpr=new, collective_axes=collective_axes)
    return outs, [0 if b else None for b in batched_out]


discharge_rules[run_scoped_p] = _discharge
ad.primitive_jvps[run_scoped_p] = _jvp
ad.primitive_transposes.excuse(run_scoped_p, "kernels have forward derivatives only")
batching.axis_primitive_batchers[run_scoped_p] = _batch
