"""Values that are on their way: the type of what a collective has started to send, and the `Todo` that users hold.

`AbstractTodo` wraps the type of the result. A pending value can only be waited for, and only in the program that started it:
it has no shape, no operation takes it, and it does not enter or leave a traced function. The primitives that start and wait
stand in `lax/collectives/starting.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlab import tree as _tree
from xlab.core import avals as _avals
from xlab.core import source_info as _source_info
from xlab.core.avals import AbstractValue, aval_of
from xlab.core.locations import current_source_info
from xlab.core.refs import operator_symbols
from xlab.errors import PendingAttributeError, PendingValueError


class AbstractTodo(AbstractValue):
    """Type of a pending value: the type of the result, and how it was started.

    Equality and hash are those of the result's type. What started it (primitive, types of its operands, parameters) is kept beside, for
    errors and for the transpose, which starts the transposed collective where the value is waited for.

    Example:
        >>> import numpy as np
        >>> from xlab.core.avals import ShapedArray
        >>> print(AbstractTodo(ShapedArray((8,), np.float32)))
        Todo{float32[8]}
    """

    __slots__ = ("inner_aval", "operands", "params", "start")

    inner_aval: Any
    start: Any  # the primitive, if it is known
    operands: tuple  # types, where the value is a variable of the program that starts it
    params: dict | None

    def __init__(self, inner_aval, start=None, operands=(), params=None):
        self.inner_aval = inner_aval
        self.start, self.operands, self.params = start, operands, params

    mat = property(lambda self: self.inner_aval.mat)
    vma = property(lambda self: self.inner_aval.vma)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        raise PendingAttributeError(
            f"the attribute {name!r} of a value of type {self} was asked for at {_source_info.describe_caller()}. {_WAIT}"
        )

    def without_dimension(self, d: int) -> AbstractTodo:
        return AbstractTodo(self.inner_aval.without_dimension(d), self.start)

    def with_dimension(self, d: int, size: int, *sharding: Any) -> AbstractTodo:
        return AbstractTodo(self.inner_aval.with_dimension(d, size, *sharding), self.start)

    def to_tangent_aval(self) -> AbstractTodo:
        return AbstractTodo(self.inner_aval.to_tangent_aval(), self.start)

    def to_ct_aval(self) -> AbstractTodo:
        return AbstractTodo(self.inner_aval.to_ct_aval(), self.start)

    def str_short(self, short_dtypes: bool = False) -> str:
        return f"Todo{{{self.inner_aval.str_short(short_dtypes)}}}"

    def __eq__(self, other):
        return type(other) is AbstractTodo and self.inner_aval == other.inner_aval

    def __hash__(self):
        return hash((AbstractTodo, self.inner_aval))

    def __str__(self):
        return self.str_short(short_dtypes=False)

    def __repr__(self):
        return f"AbstractTodo({self.inner_aval.str_short(short_dtypes=False)})"

    def __reduce__(self):
        return AbstractTodo, (self.inner_aval,)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


_WAIT = "A collective that was started has no value yet: call done() on what the start returned, and use the result."


class Todo:
    """A collective that was started: `done()` waits for it and returns the result.

    It belongs to the traced function that made it, and is no array: operations take what `done()` returns.

    Args:
        x: the pending values, an array tree of the form of the result. Values of it that are finished already wait for nothing.
        done_fun: called with `x` by the first `done()`.

    Example:
        >>> import xlab
        >>> def mean_of_all(x):
        ...     total = xlab.lax.psum_start(x, "i")
        ...     y = x * 2              # computed while the sum is under way
        ...     return y - total.done()
        >>> print(xlab.vmap(mean_of_all, axis_name="i")(xlab.lax.iota("float32", 3)))
        [-3. -1.  1.]
    """

    __slots__ = ("_name", "_result", "_source", "done_fun", "x")
    explains_itself = True

    def __init__(self, x: Any, done_fun: Callable[[Any], Any], name: str = "a collective"):
        self.x, self.done_fun = x, done_fun
        self._name, self._source = name, current_source_info()

    def done(self) -> Any:
        """Waits for the collective and returns its result; further calls return the same."""
        if not hasattr(self, "_result"):
            self._result = self.done_fun(self.x)
        return self._result

    def __repr__(self):
        types = [_result_type(v) for v in _tree.leaves(self.x)]
        text = ", ".join(types) if len(types) < 5 else f"{', '.join(types[:4])}, …"
        return f"Todo{{{text}}}"

    def refuse(self, what: str) -> PendingValueError:
        """The error for a use that needs the value."""
        return PendingValueError(
            f"{what} at {_source_info.describe_caller()}: {self!r} is what {self._name} started at "
            f"{_source_info.SourceInfo(*self._source)}, not an array. Call done() on it in the function that started it, and use the "
            f"result; it cannot enter or leave a traced function (jit, scan, cond, shard_map, ...) before that."
        )

    def __jax_array__(self):
        raise self.refuse("a pending value was given where an array is expected")

    def __array__(self, *args, **kwargs):
        raise self.refuse("NumPy was given a pending value")

    def __bool__(self):
        raise self.refuse("the truth of a pending value was asked for")

    def __len__(self):
        raise self.refuse("the length of a pending value was asked for")

    def __iter__(self):
        raise self.refuse("the elements of a pending value were asked for")

    def __getitem__(self, index):
        raise self.refuse("an element of a pending value was asked for")

    def __float__(self):
        raise self.refuse("the number of a pending value was asked for")

    __int__ = __index__ = __complex__ = __float__
    __hash__ = object.__hash__

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        raise PendingAttributeError(
            str(self.refuse(f"the attribute {name!r} of a pending value was asked for"))
        )


Future, AbstractFuture = Todo, AbstractTodo


def _result_type(x: Any) -> str:
    aval = aval_of(x)
    return (aval.inner_aval if type(aval) is AbstractTodo else aval).str_short(short_dtypes=True)


def _no_operator(symbol):
    def refuse(self, other=None):
        if other is self and symbol in ("==", "!="):
            return symbol == "=="
        raise self.refuse(f"unsupported operand type(s) for {symbol}: a pending value")

    return refuse


# A comparison that Python answers by identity would be False for every value that comes.
for _name, _symbol in [*operator_symbols(), ("eq", "=="), ("ne", "!=")]:
    setattr(Todo, f"__{_name}__", _no_operator(_symbol))
_avals.aval_makers[AbstractTodo] = lambda x: x


def refuse_operand(prim: Any, avals: tuple) -> None:
    """Raises where an operation on arrays gets a pending value."""
    for a in avals:
        if type(a) is AbstractTodo:
            raise PendingValueError(
                f"{prim.name} was given a value of type {a}{_started(a)} at {_source_info.describe_caller()}. {_WAIT}"
            )


def at_boundary(aval: AbstractTodo, x: Any, what: str) -> PendingValueError:
    """The error for a pending value that would enter or leave a traced function."""
    made = f" at {x.origin()}" if hasattr(x, "origin") else ""
    return PendingValueError(
        f"a value of type {aval}{_started(aval)}{made} {what} at {_source_info.describe_caller()}. A collective is waited for in the "
        f"function that starts it, in the same body of a loop and in the same branch: call done() before, and hand over the result."
    )


def _started(aval: AbstractTodo) -> str:
    return f", started by {aval.start.name}," if aval.start is not None else ""
