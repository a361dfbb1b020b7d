"""`Primitive`, the operation of an equation, and `bind`, where transformations intercept it.

Arrays go to `bind` by position; everything static goes by keyword and is hashable. The types of the results come
from the primitive's abstract rule, remembered per argument types and parameters.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab.backend import caches
from xlab.core import avals as _avals
from xlab.core import dtypes
from xlab.core import effects as _effects
from xlab.core.avals import INVARYING, ShapedArray, explicit_types
from xlab.core.hi_types import in_use, is_high, not_an_array
from xlab.core.pending import AbstractTodo, refuse_operand
from xlab.core.refs import AbstractRef
from xlab.core.sharding_rules import propagate_sharding
from xlab.core.source_info import describe_caller
from xlab.core.trace import state
from xlab.errors import RefOperandError, ShardingTypeError

_primitives: list[Primitive] = []
_CACHE_LIMIT = 16384


def all_primitives() -> list[Primitive]:
    """Every primitive defined so far, in order of definition."""
    return list(_primitives)


@caches.register
def _clear_types() -> None:
    for prim in _primitives:
        prim.clear_cache()


class Primitive:
    """A named operation on arrays.

    Its meanings live in the rule tables of the interpreters; the primitive itself knows its name, how many
    results it has, and the rule for their types.

    Example:
        >>> from xlab.core import Primitive
        >>> double_p = Primitive("double")
        >>> @double_p.def_abstract_eval
        ... def _double_aval(x):
        ...     return x
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_abstract",
        "_cache",
        "_with_effects",
        "auto_pvary",
        "casts_to_reduced",
        "context_dependent",
        "ends_ref",
        "impl",
        "linear_in_unreduced",
        "makes_ref",
        "module",
        "multiple_results",
        "name",
        "takes_hi_types",
        "takes_pending",
        "takes_refs",
        "transposes_zeros",
    )  # fmt: skip

    call_primitive = map_primitive = False

    def __init__(
        self,
        name: str,
        *,
        multiple_results: bool = False,
        auto_pvary: bool = True,
        context_dependent: bool = False,
        hidden: bool = False,
    ):
        self.name = name
        self.multiple_results = multiple_results
        self.auto_pvary = auto_pvary  # operands are brought to one manual axis type before binding
        self.context_dependent = context_dependent  # types depend on more than avals and params
        # Maps unreduced operands to an unreduced result: True if linear in all operands together, else the groups of operands it is
        # linear in while the others are fixed, as tuples or slices of positions; or a function of types and parameters that says so.
        self.linear_in_unreduced: Any = False
        self.casts_to_reduced = (
            False  # operands that are the same everywhere become reduced where others are
        )
        self.takes_refs = False  # operands may be mutable references
        self.takes_hi_types = False  # operands may be values of the user's own types
        self.takes_pending = False  # operands may be collectives that were started
        # Its transpose runs where all cotangents are zero, if a result was used: a bool, or a function of the parameters that says so.
        self.transposes_zeros: Any = False
        self.makes_ref = False  # the result is a new mutable reference
        self.ends_ref = False  # the first operand is a mutable reference that is given up
        self.impl: Callable[..., Any] | None = (
            None  # set by the eager rule: `compile/dispatch.py`, or by hand
        )
        self._abstract: Callable[..., Any] | None = None
        self._with_effects = False
        self._cache: dict[tuple, tuple[Any, frozenset[_effects.Effect]]] = {}
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_name != "<module>":
            frame = frame.f_back
        self.module = frame.f_globals.get("__name__", "?").replace(".", "/") + ".py"
        if not hidden:
            _primitives.append(self)

    def __repr__(self):
        return self.name

    def bind(self, *args, **params):
        """Applies the primitive under the current interpretation."""
        here = state.__dict__
        if here["manual"] is not None and self.auto_pvary:
            args = state.insert_pvary(self, args)
        return here["trace"].process_primitive(self, args, params)

    def bind_with_trace(self, trace, args, avals, params, /):
        """Applies the primitive to arguments of the types `avals` under the interpretation of a trace."""
        outer, state.trace = state.trace, trace
        try:
            return trace.process_primitive(self, args, params)
        finally:
            state.trace = outer

    def def_bind_with_trace(self, bind_with_trace: Callable) -> Callable:
        """Sets `(trace, args, avals, params) -> results`, called instead of the trace's own `process_primitive` when the primitive is applied."""
        # Each hides the method of the same name on this one primitive.
        self.bind_with_trace = bind_with_trace  # type: ignore[method-assign]
        self.bind = lambda *args, **params: bind_with_trace(  # type: ignore[method-assign]
            state.trace, args, [_avals.aval_of(a) for a in args], params
        )
        return bind_with_trace

    def get_bind_params(self, params: dict) -> dict:
        """What to pass to `bind`, with the operands, to apply an equation's primitive again.

        Example:
            >>> import xlab
            >>> eqn, = xlab.make_jaxpr(lambda x: x.sum())(xlab.numpy.ones(3)).eqns
            >>> float(eqn.primitive.bind(xlab.numpy.ones(2), **eqn.primitive.get_bind_params(eqn.params)))
            2.0
        """
        return dict(params)

    # -- rules -----------------------------------------------------------------------------------------

    def def_impl(self, impl: Callable) -> Callable:
        """Sets how the primitive runs on concrete values when nothing intercepts it."""
        self.impl = impl
        return impl

    def def_abstract_eval(self, rule: Callable) -> Callable:
        """Sets the rule `(*avals, **params) -> aval` (or a sequence of them)."""
        self._abstract, self._with_effects = rule, False
        return rule

    def def_effectful_abstract_eval(self, rule: Callable) -> Callable:
        """Like `def_abstract_eval`, for a rule that returns `(avals, effects)`."""
        self._abstract, self._with_effects = rule, True
        return rule

    def abstract_eval(self, *avals, **params):
        """Types of the results for operands of these types, and the effects."""
        return self.abstract(avals, params)

    @property
    def has_abstract_eval(self) -> bool:
        return self._abstract is not None

    def abstract(self, avals: tuple, params: dict) -> tuple[Any, frozenset[_effects.Effect]]:
        """Types of the results (a type, or a tuple for several results) and the effects."""
        if self.context_dependent:
            return self._evaluate(avals, params)
        try:
            key = (avals, *params.items()) if params else avals
            found = self._cache.get(key)
        except TypeError:  # a parameter that cannot be hashed
            return self._evaluate(avals, params)
        if found is None:
            found = self._evaluate(avals, params)
            if len(self._cache) >= _CACHE_LIMIT:
                self._cache.clear()
            self._cache[key] = found
        return found

    def _evaluate(self, avals, params):
        if self._abstract is None:
            raise NotImplementedError(
                f"Abstract evaluation for '{self.name}' not implemented: the primitive has no abstract evaluation rule, which "
                f"says the types of its results. Define one with {self.name}_p.def_abstract_eval(rule)"
            )
        if self.auto_pvary and (
            explicit_types.in_use
            or params.get("sharding") is not None
            or params.get("out_sharding") is not None
        ):
            return propagate_sharding(self, avals, params, Primitive._evaluate_plain)
        return self._evaluate_plain(avals, params)

    def _evaluate_plain(self, avals, params):
        if not self.takes_refs:
            for a in avals:
                if type(a) is AbstractRef:
                    raise RefOperandError(
                        f"Attempting to pass a Ref {a} to a primitive: {self.name}, at {describe_caller()}. A reference is a place, "
                        f"not a value: read it first, as ref[...]."
                    )
            if in_use.types and not self.takes_hi_types and any(map(is_high, avals)):
                raise not_an_array(self.name, avals)
        if not self.takes_pending and AbstractTodo in map(type, avals):
            refuse_operand(self, avals)
        mat = INVARYING
        if self.auto_pvary and any(isinstance(a, ShapedArray) and a.mat for a in avals):
            mat = join_types(self, avals, params)
            avals = tuple(
                a.update(mat=INVARYING) if isinstance(a, ShapedArray) and a.mat else a
                for a in avals
            )
        space = None
        if self.auto_pvary and any(isinstance(a, ShapedArray) and a.memory_space for a in avals):
            space = joint_memory(self, avals)
            avals = tuple(
                a.update(memory_space=None) if isinstance(a, ShapedArray) and a.memory_space else a
                for a in avals
            )
        out = self._abstract(*avals, **params)  # type: ignore[misc]  # _evaluate made sure that it is there
        out, effects = out if self._with_effects else (out, _effects.NO_EFFECTS)
        if self.multiple_results:
            out = tuple(out)
            if mat:
                out = tuple(a.update(mat=mat) if isinstance(a, ShapedArray) else a for a in out)
        elif mat:
            out = out.update(mat=mat)
        if space is not None:
            out = (
                tuple(_in_memory(a, space) for a in out)
                if self.multiple_results
                else _in_memory(out, space)
            )
        return out, frozenset(effects)

    def clear_cache(self):
        self._cache.clear()


def joint_memory(prim: Primitive, avals: Sequence[_avals.AbstractValue]) -> str | None:
    """The memory space of an operation and its results: that of its array operands; scalars follow."""
    values = [a for a in avals if isinstance(a, ShapedArray)]
    spaces = {a.memory_space for a in values if a.ndim} or {a.memory_space for a in values} - {None}
    if len(spaces) > 1:
        raise ValueError(
            f"memory_space of all inputs passed to `{prim.name}` must be the same, got {', '.join(map(str, avals))}: some are in the memory of the "
            f"host and some in that of the devices. Bring them to one with xlab.device_put(x, xlab.memory.Space.Device), or Space.Host."
        )
    return spaces.pop() if spaces else None


def _in_memory(aval: Any, space: str) -> Any:
    return aval.update(memory_space=space) if isinstance(aval, ShapedArray) else aval


def join_types(
    prim: Primitive, avals: Sequence[_avals.AbstractValue], params: dict
) -> _avals.ManualAxisType:
    """Manual axis type of the result of an operation that does not communicate, axis by axis.

    Operands agree on what varies (`bind` sees to that). Unreduced operands go only through operations that are
    linear in them, since anything else would need the sum first.
    """
    mats = [a.mat if isinstance(a, ShapedArray) else None for a in avals]
    given = [m for m in mats if m is not None]
    varying: frozenset = frozenset().union(*(m.varying for m in given))
    unreduced: frozenset = frozenset().union(*(m.unreduced for m in given))
    reduced: frozenset = frozenset().union(*(m.reduced for m in given))
    if unreduced:
        _check_summands(prim, avals, mats, unreduced, params)
    reduced = reduced - varying - unreduced
    for a, m in zip(avals, mats):
        if (
            m is not None
            and reduced - m.reduced
            and not _shared(a)
            and not (prim.casts_to_reduced and state.manual is None)
        ):
            raise ShardingTypeError(
                f"{prim.name} got operands of types {_listed(avals)}: a value cannot be replicated over {_axes(reduced - m.reduced)} "
                f"where another input is reduced; cast it with pcast(..., to='reduced')"
            )
    return _avals.ManualAxisType(varying, unreduced, reduced)


def _check_summands(
    prim: Primitive,
    avals: Sequence[_avals.AbstractValue],
    mats: Sequence[Any],
    unreduced: frozenset,
    params: dict,
) -> None:
    """Raises unless the operation is linear in its unreduced operands."""
    linear = prim.linear_in_unreduced
    if callable(linear):
        linear = linear(*avals, **params)
    if linear is False:
        raise NotImplementedError(
            f"unreduced rule for {prim.name}: an operand is a sum that was not carried out yet over "
            f"{_axes(unreduced)}, and {prim.name} is not linear in it; psum it first"
        )
    places = range(len(avals))
    groups = (
        [set(places)]
        if linear is True
        else [set(places[g] if type(g) is slice else g) for g in linear]
    )
    for axis in unreduced:
        summands = {i for i, m in enumerate(mats) if m is not None and axis in m.unreduced}
        group: set[int] = next((g for g in groups if g & summands), set())
        problem = None
        if not group:
            problem = f"{prim.name} is not linear in its unreduced operand"
        elif not summands <= group:
            problem = "a product of two sums is not the sum of the products on each device"
        elif any(mats[i] is not None and i not in summands for i in group):
            problem = "adding a finished value to an unreduced one would add it once per device"
        elif any(axis in m.varying for m in mats if m is not None):
            problem = "an unreduced value goes together with one that is the same on all devices, not with a varying one"
        elif any(
            m is not None and axis not in m.reduced and not _shared(a)
            for i, (a, m) in enumerate(zip(avals, mats))
            if i not in group
        ):
            problem = (
                "the other operand needs the same sum in its derivative, which would be implicit communication; cast it with "
                "pcast(..., to='reduced')"
            )
        if problem:
            raise ShardingTypeError(
                f"{prim.name} got operands of types {_listed(avals)}, unreduced over {_axes(frozenset((axis,)))}: {problem}"
                f"{'' if 'cast' in problem else '; psum the unreduced operand first'}"
            )


def _shared(aval: Any) -> bool:
    """Whether an operand may be invarying where others are reduced: it has no derivative.

    Outside of `shard_map` also a scalar, whose cotangent is cast to its type.
    """
    return not dtypes.issubdtype(aval.dtype, np.inexact) or (
        not aval.shape and state.manual is None
    )


def _axes(axes: frozenset) -> str:
    return str(sorted(map(str, axes)))


def _listed(avals: Sequence[Any]) -> str:
    return ", ".join(map(str, avals))
