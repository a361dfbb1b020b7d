"""Mutable hi types: values that change in place, also in which arrays they consist of.

Their *quasi-dynamic data* (QDD), here called state, says what they consist of now: known while tracing, and different from one equation to the next. A
trace keeps the states of its variables; the type of an input of a program has its state at first.
"""

from __future__ import annotations

from typing import Any

from xlab.core.avals import AbstractValue, aval_of
from xlab.core.hi_types import NO_DERIVATIVE, OF_ARRAYS, UserType, in_use
from xlab.core.trace import state


class MutableHiType(UserType):
    """A type of values that change in place.

    What a value consists of is in its quasi-dynamic data, which any hashable object compared by `==` can be: values have a method `cur_qdd()` that
    returns it, and the methods of the type take it. A subclass defines `lo_ty_qdd`, `new_from_loval`, `read_loval` and `update_from_loval`. The
    abstract rule of a `HiPrimitive` that changes a value calls `aval.mutable_qdd.update(state)`; that of one that makes a value returns an
    `AvalQDD`.
    """

    has_qdd = True
    is_writer = False

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if not cls.__module__.startswith("xlab."):
            in_use.mutable = True

    def lo_ty(self):
        raise TypeError(
            f"what a value of type {self} consists of is not in its type: ask lo_ty_qdd(cur_qdd(value))"
        )

    def lo_ty_qdd(self, state: Any, /) -> list[AbstractValue]:
        """The types of the arrays of a value with this state."""
        raise self._missing(
            "lo_ty_qdd", "the types of the arrays of a value in a given state", "compiling"
        )

    def new_from_loval(self, state: Any, /, *vals: Any) -> Any:
        """A new value with this state and these arrays."""
        raise self._missing(
            "new_from_loval", "a new value, given its state and arrays", "compiling"
        )

    def read_loval(self, state: Any, val: Any, /) -> list:
        """The arrays of a value, whose state is given."""
        raise self._missing("read_loval", "from a value to its arrays", "compiling")

    def update_from_loval(self, state: Any, val: Any, /, *lo_vals: Any) -> None:
        """Changes a value to this state and these arrays."""
        raise self._missing("update_from_loval", "puts arrays into a value", "compiling")

    def to_tangent_aval(self) -> AbstractValue:
        """The type of tangents; without this method values count as constants."""
        return NO_DERIVATIVE

    def to_tangent_qdd(self, state: Any) -> Any:
        """The state of the tangent of a value with this state: what its method `to_tangent_qdd` says, or the same."""
        own = getattr(state, "to_tangent_qdd", None)
        return state if own is None else own()


# -- quasi-dynamic data ------------------------------------------------------------------------------------


class MutableQuasiDynamicData:
    """The state of a traced value: at first, and now.

    Example:
        >>> data = MutableQuasiDynamicData("empty")
        >>> data.update("full")
        >>> data
        MutableQuasiDynamicData('empty' -> 'full')
    """

    __slots__ = ("cur_val", "init_val")

    def __init__(self, init_val: Any):
        self.init_val = self.cur_val = init_val

    def update(self, val: Any) -> None:
        """Takes a new state."""
        self.cur_val = val

    def __repr__(self):
        return f"{type(self).__name__}({self.init_val!r} -> {self.cur_val!r})"


class AvalQDD(AbstractValue):
    """A mutable type with the state of a value: the type of an input of a program, and of a value that an equation makes.

    Attributes:
        aval: the `MutableHiType`.
        qdd: the state at first.
        final: of an input of a program, the state at its end.
    """

    __slots__ = ("aval", "final", "qdd")
    is_high = has_qdd = True

    def __init__(self, aval: MutableHiType, qdd: Any):
        self.aval, self.qdd, self.final = aval, qdd, qdd

    def lo_ty(self) -> list[AbstractValue]:
        """The types of the arrays of the value at first."""
        return self.aval.lo_ty_qdd(self.qdd)

    def to_tangent_aval(self) -> AbstractValue:
        tangent = self.aval.to_tangent_aval()
        return (
            AvalQDD(tangent, self.aval.to_tangent_qdd(self.qdd))
            if isinstance(tangent, MutableHiType)
            else tangent
        )

    def strip_weak_type(self):
        return self

    def __getattr__(self, name):
        if name in OF_ARRAYS:
            return OF_ARRAYS[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __eq__(self, other):
        return type(other) is AvalQDD and self.aval == other.aval and self.qdd == other.qdd

    def __hash__(self):
        return hash((self.aval, self.qdd))

    def str_short(self, short_dtypes: bool = False, **_: Any) -> str:
        first, last = [
            ",".join(a.str_short(short_dtypes=short_dtypes) for a in self.aval.lo_ty_qdd(qdd))
            for qdd in (self.qdd, self.final)
        ]
        return f"{self.aval.str_short(short_dtypes=short_dtypes)}{{{first}{'' if first == last else f' -> {last}'}}}"

    def __str__(self):
        return self.str_short(short_dtypes=False)

    __repr__ = __str__


class AvalMutableQDD:
    """What the abstract rule of a primitive is given for an operand of a mutable type.

    Attributes:
        aval: the `MutableHiType`.
        mutable_qdd: its state, which the rule may `update`.
    """

    __slots__ = ("aval", "mutable_qdd")
    is_high = has_qdd = True

    def __init__(self, aval: MutableHiType, mutable_qdd: MutableQuasiDynamicData):
        self.aval, self.mutable_qdd = aval, mutable_qdd

    def __getattr__(self, name):
        return getattr(self.aval, name)

    def __repr__(self):
        return f"AvalMutableQDD({self.aval}, {self.mutable_qdd})"


def cur_qdd(x: Any) -> Any:
    """The state of a value of a mutable hi type at this point of the program.

    Raises:
        TypeError: the value has no such state.
    """
    if not isinstance(aval_of(x), MutableHiType):
        raise TypeError(
            f"cur_qdd takes a value of a mutable hi type, got {x!r} of type {aval_of(x)}, whose type says all that is known of it"
        )
    return state.trace.cur_qdd(x)


def is_mutable(x: Any) -> bool:
    """Whether a value, traced or not, is of a mutable hi type."""
    if not in_use.mutable or type(x) in _PLAIN:
        return False
    try:
        return isinstance(aval_of(x), MutableHiType)
    except TypeError:  # no value of a program; whoever wants one says so
        return False


_PLAIN = {bool, int, float, complex}


def typed(x: Any) -> AbstractValue:
    """The type of an argument of a program: that of a mutable value together with its state."""
    aval = aval_of(x)
    return AvalQDD(aval, state.trace.cur_qdd(x)) if isinstance(aval, MutableHiType) else aval
