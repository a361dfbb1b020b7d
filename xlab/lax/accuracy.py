"""The argument `accuracy` of elementary functions: `AccuracyMode` and `Tolerance`."""

from __future__ import annotations

import enum

from xlab.backend.values import value_class
from xlab.interpreters import mlir
from xlab.interpreters.mlir.lowering_rules import single_operations

__all__ = ["AccuracyMode", "Tolerance"]


class AccuracyMode(enum.Enum):
    """HIGHEST asks for the most exact implementation, DEFAULT leaves it to the compiler."""

    HIGHEST = 1
    DEFAULT = 2


@value_class
class Tolerance:
    """The largest error of a function's values that is acceptable: `atol` and `rtol`, or `atol` and `ulps`.

    Args:
        atol: absolute.
        rtol: relative.
        ulps: in units of the last place.

    Example:
        >>> import xlab
        >>> from xlab import lax
        >>> print(xlab.make_jaxpr(lambda x: lax.exp(x, accuracy=lax.Tolerance(rtol=1e-3)))(1.0).eqns[0].params["accuracy"])
        Tolerance(atol=0.0, rtol=0.001, ulps=0)
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def __post_init__(self):
        if self.atol < 0 or self.rtol < 0 or self.ulps < 0:
            raise ValueError(f"Tolerances must be non-negative, got {self}")
        if self.atol == 0 and self.rtol == 0 and self.ulps == 0:
            raise ValueError("At least one of atol, rtol, or ulps must be set.")


def checked(name: str, accuracy):
    """An accuracy as a parameter of the function `name`."""
    if not isinstance(accuracy, AccuracyMode | Tolerance):
        raise NotImplementedError(
            f"Accuracy {accuracy!r} not supported: lax.{name} takes lax.AccuracyMode.HIGHEST, lax.AccuracyMode.DEFAULT or "
            f"a lax.Tolerance(atol=..., rtol=..., ulps=...)"
        )
    return accuracy


def attribute(accuracy) -> str:
    """The accuracy attribute of an operation, as text after its operands."""
    if accuracy is None or accuracy is AccuracyMode.DEFAULT:
        return ""
    parts = []
    if isinstance(accuracy, Tolerance):
        parts = [
            *(
                f"{k} = {float(getattr(accuracy, k)):.17e}"
                for k in ("atol", "rtol")
                if getattr(accuracy, k)
            ),
            *([f"ulps = {int(accuracy.ulps)}"] if accuracy.ulps else []),
        ]
    mode = "TOLERANCE" if parts else "HIGHEST"
    parts.append(f"mode = #stablehlo.result_accuracy_mode<{mode}>")
    return f" {{result_accuracy = #stablehlo.result_accuracy<{', '.join(parts)}>}}"


def unary(op: str):
    """The lowering rule of a function that takes an accuracy."""
    plain = mlir.unary(op)

    def rule(ctx, x, accuracy=None):
        if accuracy is None:
            return plain(ctx, x)
        return ctx.op(f"{op} {x}{attribute(accuracy)} : {ctx.type_out()}")

    if plain in single_operations:
        single_operations[rule] = single_operations[plain]
    return rule
