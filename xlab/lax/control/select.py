"""Which of several results each example of a batch takes, where these may be values of hi types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlab.core.avals import aval_of
from xlab.core.hi_types import is_high
from xlab.interpreters import ad
from xlab.interpreters.hi_primitives import HiPrimitive
from xlab.lax.comparison import select_n
from xlab.lax.shape import broadcast_in_dim


def select_examples(which: Any, cases: Sequence) -> Any:
    """For every example the case with its number in `which`, a vector of booleans or integers; examples are in front."""
    aval = aval_of(cases[0])
    if is_high(aval):
        return select_hi_p.bind(which, *cases)
    return _select(which, cases)


def _select(which, cases):
    shape = aval_of(cases[0]).shape
    if len(shape) > 1:
        which = broadcast_in_dim(which, shape, (0,))
    return select_n(which, *cases)


class _SelectHi(HiPrimitive):
    """Each array of the results is selected."""

    def abstract_eval(self, which, *cases):
        return cases[0], set()

    def to_lojax(self, which, *cases):
        ty = aval_of(cases[0])
        return ty.raise_val(*(_select(which, parts) for parts in zip(*map(ty.lower_val, cases))))

    def jvp(self, primals, tangents):
        which, *cases = primals
        dots = map(ad.instantiate_zeros, tangents[1:])
        return self.bind(which, *cases), select_examples(which, list(dots))

    def transpose(self, ct, which, *cases):
        zero = ad.zeros_like_aval(aval_of(ct))
        given = [
            select_examples(which, [ct if j == i else zero for j in range(len(cases))])
            if ad.is_undefined_primal(x)
            else None
            for i, x in enumerate(cases)
        ]
        return [None, *given]


select_hi_p = _SelectHi("select_hi")
