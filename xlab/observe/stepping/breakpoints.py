"""Breakpoints of the stepper: at an equation, a primitive, a variable, a line, or a condition on values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from xlab.core.array import KeyArray, is_native_array
from xlab.observe.programs import names as _names

if TYPE_CHECKING:
    from xlab.core.jaxpr import Jaxpr, Var
    from xlab.observe.programs.stages import ProgramStages
    from xlab.observe.stepping.machine import Executed

LONGEST = 1000
"""Characters that a breakpoint's text may have."""

_FORMS = (
    (re.compile(r"(?:is)?nan"), lambda m: {"nan": True}),
    (re.compile(r"(?:is)?inf"), lambda m: {"inf": True}),
    (re.compile(r"(?:equation|eqn) +(\d{1,9})"), lambda m: {"equation": int(m[1])}),
    (re.compile(r"line +(\d{1,9})"), lambda m: {"line": int(m[1])}),
    (re.compile(r"(?:var|variable) +([^\s;]+)"), lambda m: {"variable": m[1]}),
    (re.compile(r"abs *> *(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)"), lambda m: {"above": float(m[1])}),
    (
        re.compile(r"shape +[(\[]?([\d, ]*)[)\]]?"),
        lambda m: {"shape": tuple(map(int, re.findall(r"\d+", m[1])))},
    ),
    (re.compile(r"(?:primitive +)?([a-z_]\w*)"), lambda m: {"primitive": m[1]}),
)


class Stepping(Protocol):
    """The protocol of a stepper that a breakpoint uses."""

    stages: ProgramStages

    def names_of(self, jaxpr: Jaxpr, v: Var) -> tuple[str, ...]:
        """The names of a variable."""
        ...


@dataclass
class Breakpoint:
    """Where a run stops: behind the first step for which everything that is given holds. `hits` counts those steps.

    Args:
        equation: id of the equation. primitive: its name. line: line of the user's source.
        variable: letter or the user's name of a result.
        nan, inf: a result has one. above: a result has an entry whose absolute value is larger. shape: of a result.
        where: a predicate on the list of results.
        after: stops from this hit on; earlier ones are only counted.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab.observe import Stepper
        >>> s = Stepper(lambda x: jnp.log(x - 1) * 2, jnp.ones(3))
        >>> stop = s.break_at(inf=True)
        >>> s.run().text.split()[2], stop.hits, str(stop)
        ('log', 1, 'inf')
    """

    equation: int | None = None
    primitive: str | None = None
    line: int | None = None
    variable: str | None = None
    nan: bool = False
    inf: bool = False
    above: float | None = None
    shape: Sequence[int] | None = None
    where: Callable[[list], bool] | None = None
    after: int = 1
    hits: int = 0

    def __post_init__(self) -> None:
        if not (self.nan or self.inf) and all(
            x is None
            for x in (
                self.equation,
                self.primitive,
                self.line,
                self.variable,
                self.above,
                self.shape,
                self.where,
            )
        ):
            raise TypeError(
                "a breakpoint needs something to stop at: equation=, primitive=, line=, variable=, nan=True, "
                "inf=True, above=, shape= or where="
            )

    def __str__(self) -> str:
        parts = [
            f"equation {self.equation}" if self.equation is not None else "",
            self.primitive or "",
            f"line {self.line}" if self.line is not None else "",
            f"var {self.variable}" if self.variable else "",
            "nan" if self.nan else "",
            "inf" if self.inf else "",
            f"abs > {self.above:g}" if self.above is not None else "",
            f"shape {','.join(map(str, self.shape))}" if self.shape is not None else "",
            getattr(self.where, "__name__", "where") if self.where else "",
        ]
        return " and ".join(filter(None, parts))

    def hit(self, stepper: Stepping, done: Executed) -> bool:
        """Counts a step that fits; whether the run stops there."""
        if not self._fits(stepper, done):
            return False
        self.hits += 1
        return self.hits >= self.after

    def _fits(self, stepper: Stepping, done: Executed) -> bool:
        eqn = done.eqn
        if self.equation is not None and stepper.stages.numbers.get(id(eqn)) != self.equation:
            return False
        if self.primitive is not None and eqn.primitive.name != self.primitive:
            return False
        if self.line is not None and (
            (source := _names.source_of(eqn)) is None or source.line != self.line
        ):
            return False
        outs = list(done.outputs)
        if self.variable is not None:
            outs = [
                x
                for v, x in zip(eqn.outvars, outs)
                if self.variable in stepper.names_of(done.jaxpr, v)
            ]
            if not outs:
                return False
        if self.nan and not any(holds(x, np.isnan) for x in outs):
            return False
        if self.inf and not any(holds(x, np.isinf) for x in outs):
            return False
        if self.above is not None and not any(
            holds(x, lambda a: np.abs(a) > self.above) for x in outs
        ):
            return False
        if self.shape is not None and not any(
            tuple(np.shape(x))[done.local :] == tuple(self.shape) for x in outs
        ):
            return False
        return self.where is None or bool(self.where(outs))


def breakpoint_of(text: str) -> Breakpoint:
    """A breakpoint from its text, as people write it in the view.

    Raises:
        ValueError: the text is none of the known forms.

    Example:
        >>> breakpoint_of("abs > 1e3").above, breakpoint_of("line 12").line, breakpoint_of("dot_general").primitive
        (1000.0, 12, 'dot_general')
    """
    short = text.strip()
    if len(text) <= LONGEST:
        for form, made in _FORMS:
            if found := form.fullmatch(short):
                return Breakpoint(**made(found))
    raise ValueError(
        f"a breakpoint is `nan`, `inf`, `abs > 100`, `shape 8,4`, `line 12`, `equation 5`, `var h` or the name of a "
        f"primitive such as `dot_general`; given {text[:60]!r}"
    )


def breakpoints_of(text: str) -> list[Breakpoint]:
    """Several breakpoints, parted by semicolons."""
    if len(text) > LONGEST:
        raise ValueError(f"breakpoints take up to {LONGEST} characters, given {len(text)}")
    return [breakpoint_of(part) for part in text.split(";") if part.strip()]


def holds(x: Any, test: Callable[[np.ndarray], Any]) -> bool:
    """Whether an entry of a value passes a test; shards are looked at where they lie, and keys pass none."""
    if isinstance(x, KeyArray):
        return False
    parts = (
        [s.data._host_value() for s in x.addressable_shards]
        if is_native_array(x)
        else [np.asarray(x)]
    )
    for part in parts:
        part = (
            part.astype(np.float32) if part.dtype.kind == "V" and part.dtype.names is None else part
        )
        if part.dtype.kind in "fciu" and test(part).any():
            return True
    return False
