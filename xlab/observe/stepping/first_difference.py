"""Two runs of a program side by side: another input, another precision, compiled against stepped."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlab.compile.ref_discharge import copied
from xlab.core.array import KeyArray, is_native_array
from xlab.core.jaxpr import Var, eval_jaxpr
from xlab.core.refs import is_ref
from xlab.observe.programs.analysis_only import analysis_only
from xlab.observe.records import Step, Value
from xlab.observe.stepping.machine import Executed
from xlab.observe.stepping.stepper import Stepper
from xlab.observe.stepping.values import summarize


def first_difference(
    a: Stepper, b: Stepper, *, rtol: float = 1e-3, atol: float = 0.0
) -> tuple[Step, Step] | None:
    """Runs two steppers side by side; the first steps whose results differ by more than the tolerance, where both then stand.

    Conversions between types that only one of the programs has (float32 against bfloat16) are passed over.

    Raises:
        TypeError: something else than steppers.
        ValueError: the programs do not have the same equations.

    Example:
        >>> import xlab.numpy as jnp
        >>> f = lambda x: jnp.exp(jnp.floor(x))
        >>> x, y = first_difference(Stepper(f, jnp.float32(0.4)), Stepper(f, jnp.float32(1.4)))
        >>> x.text.split()[2], x.outputs[0].max, y.outputs[0].max
        ('floor', 0.0, 1.0)
    """
    for given in (a, b):
        if not isinstance(given, Stepper):
            raise TypeError(
                f"first_difference takes two steppers, as observe.Stepper(f, x) makes them; given {given!r} of type {type(given).__name__}"
            )
    while not (a.finished or b.finished):
        x, y = a._advance(a.into), b._advance(b.into)
        while x is not None and y is not None and x.eqn.primitive is not y.eqn.primitive:
            if _converts(x):
                x = a._advance(a.into)
            elif _converts(y):
                y = b._advance(b.into)
            else:
                raise ValueError(
                    f"the programs part at steps {a.index - 1} and {b.index - 1}: {x.eqn.primitive.name} and "
                    f"{y.eqn.primitive.name}"
                )
        if x is None or y is None:
            break
        if not all(close(p, q, rtol, atol) for p, q in zip(x.outputs, y.outputs)):
            mine, other = a._record_of(x), b._record_of(y)
            return (mine, other) if mine is not None and other is not None else None
    return None


def jitted_difference(
    fun: Any, *args: Any, rtol: float = 1e-5, atol: float = 1e-6, **kwargs: Any
) -> tuple[Step, Value] | None:
    """The first equation whose compiled result differs from the stepped one by more than the tolerance.

    The program is compiled once more with the result of every equation as an output, so compiled values may be rounded
    differently from those of a program that keeps them inside.

    Returns:
        The step, and the value that the compiled program has there; None where all agree.

    Example:
        >>> import xlab.numpy as jnp
        >>> print(jitted_difference(lambda x: jnp.sin(x) * 2, jnp.ones(3)))
        None
    """
    from xlab.compile.jit import jit

    stepper = Stepper(fun, *args, into=False, **kwargs)
    closed = stepper.stages.closed
    every: list[Var] = [v for eqn in closed.jaxpr.eqns for v in eqn.outvars]
    whole = closed.jaxpr.replace(outvars=every)
    refs = [x for x in (*stepper._flat, *closed.consts) if is_ref(x)]
    before = [copied(ref.peek()) for ref in refs]
    with analysis_only():
        compiled = iter(jit(lambda *flat: eval_jaxpr(whole, closed.consts, *flat))(*stepper._flat))
    for ref, value in zip(refs, before):  # the steps begin where the compiled run began
        ref.store(value)
    while (done := stepper._advance(False)) is not None:
        for x in done.outputs:
            other = next(compiled)
            if not close(x, other, rtol, atol):
                step = stepper._record_of(done)
                return (step, summarize(other, "compiled")) if step is not None else None
    return None


def close(p: Any, q: Any, rtol: float, atol: float) -> bool:
    """Whether two values agree within the tolerance; NaN agrees with NaN."""
    p, q = _plain(p), _plain(q)
    wide = np.complex128 if "c" in (p.dtype.kind, q.dtype.kind) else np.float64
    return p.shape == q.shape and bool(
        np.allclose(p.astype(wide), q.astype(wide), rtol=rtol, atol=atol, equal_nan=True)
    )


def _converts(done: Executed) -> bool:
    return done.eqn.primitive.name == "convert_element_type"


def _plain(x: Any) -> np.ndarray:
    if isinstance(x, KeyArray):
        x = x.base
    return x._host_value() if is_native_array(x) else np.asarray(x)
