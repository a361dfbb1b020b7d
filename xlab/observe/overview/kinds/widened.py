"""Values in a narrow float dtype that another operand widens, though nobody asked for it."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from xlab.core import dtypes
from xlab.core.jaxpr import JaxprEqn, Literal, Var, results_of
from xlab.interpreters.costs import bytes_of, cost_of
from xlab.lax.convert import convert_element_type
from xlab.observe.overview.inspection import LEAST, Inspection, kind
from xlab.observe.overview.measures import Measures, Proof
from xlab.observe.programs import names as _names
from xlab.observe.programs.rewriting import retraced, run
from xlab.observe.records.finding import Amount, Finding

_ASKS = ("astype", "float32", "float64", "f32", "f64", "convert_element_type", "preferred", "dtype")


@kind("widened type")
def widened_types(at: Inspection) -> Iterable[Finding]:
    """Conversions that a wider operand of the same line brings about."""
    told: set[Any] = set()
    for place in at.places:
        eqn = place.eqn
        if eqn.primitive.name != "convert_element_type" or _names.is_transposed(eqn):
            continue
        narrow: Any = eqn.invars[0].aval
        wide: Any = eqn.outvars[0].aval
        if not _widens(narrow, wide) or bytes_of([wide]) < LEAST or _asked_for(eqn):
            continue
        for reader in at.readers.get(eqn.outvars[0], ()):
            other = _culprit(at, reader, eqn.outvars[0], narrow)
            if other is None or (id(eqn), other) in told:
                continue
            told.add((id(eqn), other))
            short = lambda a: dtypes.short_name(a.dtype)
            extra = bytes_of([wide]) - bytes_of([narrow])
            often = place.times or 1
            found = at.finding(
                "widened type",
                f"{at.called(other)} {other.aval.str_short(short_dtypes=True)} makes {at.called(eqn.invars[0])} {narrow.str_short(short_dtypes=True)} to {short(wide)}",
                reader,
                nbytes=extra,
                us=2e6 * often * extra / at.machine.bandwidth,
            )
            name = at.called(other).strip("`")
            yield from at.offered(
                found,
                f"convert the smaller one: {name}.astype({at.called(eqn.invars[0]).strip('`')}.dtype)"
                if name.isidentifier()
                else f"give {name} the dtype {short(narrow)}",
                functools.partial(_narrowed, at, eqn, reader, other),
                functools.partial(_fewer, short=short(wide), wide=wide.dtype),
            )


def _widens(narrow: Any, wide: Any) -> bool:
    f = lambda a: dtypes.issubdtype(a.dtype, np.floating)
    return f(narrow) and f(wide) and narrow.dtype.itemsize < wide.dtype.itemsize


def _asked_for(eqn: JaxprEqn) -> bool:
    """Whether the line says so itself."""
    source = _names.source_of(eqn)
    if source is None:
        return True
    said = source.text[source.column : source.end_column or None]
    return any(word in said for word in _ASKS)


def _culprit(at: Inspection, reader: JaxprEqn, widened: Any, narrow: Any) -> Any:
    """The operand of another dtype, no larger than what it widens."""
    if len(reader.invars) != 2 or len(reader.outvars) != 1:
        return None
    for v in reader.invars:
        if v is widened or type(v) is Literal:
            continue
        root: Any = v
        while (made := at.makers.get(root)) is not None and made.primitive.name in ("broadcast_in_dim", "reshape", "expand_dims"):  # fmt: skip
            root = made.invars[0]
        if type(root) is not Var:
            continue
        aval: Any = root.aval
        made = at.makers.get(root)
        if made is not None and made.primitive.name == "convert_element_type":
            continue
        if getattr(aval, "weak_type", False) or aval.size > narrow.size:
            continue
        if aval.dtype == widened.aval.dtype:
            return root
    return None


_SAME = frozenset(
    ("add", "sub", "mul", "div", "max", "min", "neg", "exp", "tanh", "logistic", "log", "sqrt", "rsqrt", "abs", "sign", "select_n", "integer_pow",
     "square", "sin", "cos", "reshape", "broadcast_in_dim", "transpose", "squeeze", "slice", "concatenate", "copy")
)  # fmt: skip
"""Primitives that compute in whatever float dtype their operands have."""


def _narrowed(at: Inspection, conversion: JaxprEqn, reader: JaxprEqn, other: Any) -> Any:
    """The program in which the other operand has the narrow dtype, and with it what is made of both, as far as operations keep a dtype."""
    before: Any = conversion.invars[0].aval
    after: Any = conversion.outvars[0].aval
    narrow, wide = before.dtype, after.dtype
    closed = at.stages.closed

    def instead(eqn: JaxprEqn, given: list) -> Any:
        if eqn is conversion:
            return [given[0]]
        kept = [getattr(x, "dtype", None) == narrow for x in given]
        stated = [getattr(a.aval, "dtype", None) == wide for a in eqn.invars]
        changed = [k and s for k, s in zip(kept, stated)]
        if not any(changed):
            return None
        name = eqn.primitive.name
        if name == "convert_element_type" and eqn.params["new_dtype"] == narrow:
            return [given[0]]
        if eqn is reader or (name in _SAME and all(s or not _float(a) for s, a in zip(stated, eqn.invars))):  # fmt: skip
            whole = all(c or not s or _small(a) for c, s, a in zip(changed, stated, eqn.invars))
            if whole:
                given = [convert_element_type(x, narrow) if s else x for x, s in zip(given, stated)]
                return results_of(eqn, given)
        return results_of(
            eqn, [convert_element_type(x, wide) if c else x for x, c in zip(given, changed)]
        )

    return retraced(at.stages, lambda *args: run(closed.jaxpr, closed.consts, args, instead))


def _float(a: Any) -> bool:
    dtype = getattr(a.aval, "dtype", None)
    return dtype is not None and dtypes.issubdtype(dtype, np.floating)


def _small(a: Any) -> bool:
    return math.prod(a.aval.shape) <= 1 << 14


def _fewer(before: Measures, after: Measures, short: str, wide: Any) -> Proof | None:
    """Bytes of values that are in the wide dtype, as the program has them."""

    def held(m: Measures) -> int:
        jaxpr = m.stages.closed.jaxpr
        return sum(
            bytes_of([v.aval])
            for e in jaxpr.eqns
            for v in e.outvars
            if getattr(v.aval, "dtype", None) == wide and cost_of(e) is not None
        )

    b, a = held(before), held(after)
    if a >= b:
        return None
    return Proof("compiled like that", (Amount(f"values in {short}", b, a),))
