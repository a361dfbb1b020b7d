"""Is this the jaxpr of a kernel? Inputs are references, nothing is returned, and what equations do besides stays inside.

`typechecks` (`core/check.py`) runs it for every equation of `kernel_call` that a checker of programs meets.
"""

from __future__ import annotations

from collections.abc import Iterator

from xlab.core import effects as _effects
from xlab.core.check import check_jaxpr, typechecks
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, open_jaxpr, subjaxprs_of_params
from xlab.core.refs import AbstractRef
from xlab.errors import JaxprTypeError
from xlab.kernels.call_primitive import kernel_call_p
from xlab.kernels.program import kernel_grid
from xlab.kernels.value_path import ValueRunEffect

ALLOWED: tuple[type[_effects.Effect], ...] = (
    _effects.DebugEffect,
    _effects.OrderedDebugEffect,
    _effects.IOEffect,
    _effects.OrderedIOEffect,
    ValueRunEffect,
    _effects.NamedAxisEffect,
    _effects.InternalMutableArrayEffect,
)
"""Effects that kernels may have besides those on their references."""


def check_kernel_jaxpr(
    jaxpr: Jaxpr | ClosedJaxpr, *, allowed: tuple[type[_effects.Effect], ...] = ALLOWED
) -> None:
    """Raises for a jaxpr that is not one of a kernel; every violation is named, with its equation and its line.

    Args:
        jaxpr: the program.
        allowed: classes of effects that it may have besides reading and writing its inputs.

    Raises:
        TypeError: an input is no reference, or the program is not well formed.
        ValueError: it returns something, has references or arrays as constants, or has an effect that is not allowed.

    Example:
        >>> import xlab
        >>> from xlab.kernels.check import check_kernel_jaxpr
        >>> def double(x_ref, o_ref):
        ...     o_ref[...] = x_ref[...] * 2
        >>> refs = xlab.new_ref(1.0), xlab.new_ref(0.0)
        >>> check_kernel_jaxpr(xlab.make_jaxpr(double)(*refs))
    """
    check_jaxpr(jaxpr)
    program = open_jaxpr(jaxpr)
    inputs, others = list(_inputs(program)), [*_results(program), *_effects_of(program, allowed)]
    if not inputs and not others:
        return
    said = "\n".join(f"  {text}" for text in (*inputs, *others))
    name = program.debug_info.name or "kernel"
    raise (JaxprTypeError if inputs else ValueError)(
        f"this is not the jaxpr of a kernel ({name}):\n{said}\nA kernel takes references, writes its results to them, and returns None."
    )


def _inputs(jaxpr: Jaxpr) -> Iterator[str]:
    names = jaxpr.debug_info.arg_names
    for i, v in enumerate(jaxpr.invars):
        if type(v.aval) is not AbstractRef:
            called = f" ({names[i]})" if i < len(names) and names[i] else ""
            use = next((eqn for eqn in jaxpr.eqns if any(a is v for a in eqn.invars)), None)
            where = f", used by {_place(jaxpr, use)}" if use is not None else ""
            yield f"kernels take Ref inputs, but input {i}{called} is {v.aval}{where}"


def _results(jaxpr: Jaxpr) -> Iterator[str]:
    for k, a in enumerate(jaxpr.outvars):
        made = next((eqn for eqn in jaxpr.eqns if any(v is a for v in eqn.outvars)), None)
        source = f"result {k} is {a.aval}"
        if made is not None:
            source += f", made by {_place(jaxpr, made)}"
        elif type(a) is Literal:
            source += f", the number {a.val}"
        yield f"kernels should return None, but {source}"


def _effects_of(jaxpr: Jaxpr, allowed) -> Iterator[str]:
    constants = set(jaxpr.constvars)
    for eqn in jaxpr.eqns:
        for effect in sorted(eqn.effects, key=str):
            if isinstance(effect, _effects.RefEffect):
                ref = eqn.invars[effect.input]
                if ref in constants:
                    yield (
                        f"{_place(jaxpr, eqn)} has the effect {effect} on a reference of type {ref.aval} that is a constant of "
                        f"the kernel, not an input"
                    )
            elif not isinstance(effect, allowed):
                yield f"{_innermost(jaxpr, eqn, effect)} has the effect {effect}, which kernels cannot have"
    yield from (
        f"a constant of type {v.aval} is captured: pass it as an input"
        for v in jaxpr.constvars
        if type(v.aval) is not AbstractRef
    )


def _innermost(jaxpr: Jaxpr, eqn: JaxprEqn, effect) -> str:
    """The equation that an effect comes from, through the programs inside."""
    for name, inner in subjaxprs_of_params(eqn.params):
        body = open_jaxpr(inner)
        for e in body.eqns:
            if effect in e.effects:
                return f"{_innermost(body, e, effect)}, in {name} of {_place(jaxpr, eqn)}"
    return _place(jaxpr, eqn)


def _place(jaxpr: Jaxpr, eqn: JaxprEqn) -> str:
    number = next(i for i, e in enumerate(jaxpr.eqns) if e is eqn)
    return f"equation {number}, {eqn.primitive.name} at {eqn.source_info}"


def _check_kernel_call(eqn: JaxprEqn) -> None:
    mapping, jaxpr = eqn.params["grid_mapping"], eqn.params["jaxpr"]
    sizes = [n if isinstance(n, int) else None for n in mapping.grid]
    with kernel_grid(sizes, mapping.grid_names):
        check_kernel_jaxpr(jaxpr)
    n_in, n_refs = len(eqn.invars), len(jaxpr.in_avals)
    expected = n_in - mapping.num_dynamic + mapping.num_outputs + mapping.num_scratch
    if n_refs != expected:
        raise JaxprTypeError(
            f"kernel_call at {eqn.source_info} has {n_in} operands, {mapping.num_outputs} outputs and {mapping.num_scratch} "
            f"scratch references, so its kernel takes {expected} references, but its jaxpr takes {n_refs}"
        )


typechecks[kernel_call_p] = _check_kernel_call
