"""Functions with a stack of transformations around them, as interpreters written outside of the runtime use them.

Example:
    >>> @transformation2
    ... def doubled(fun, *args):
    ...     return [2 * out for out in fun(*args)]
    >>> doubled(wrap_init(lambda x: [x + 1])).call_wrapped(3)
    [8]
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from xlab.core.jaxpr import DebugInfo

__all__ = [
    "Store",
    "StoreException",
    "WrappedFun",
    "cache",
    "merge_linear_aux",
    "transformation",
    "transformation2",
    "transformation_with_aux",
    "transformation_with_aux2",
    "wrap_init",
]


class StoreException(Exception):
    """An auxiliary result was read before the call that makes it, or was made twice."""


class Store:
    """Holds one value, written once."""

    __slots__ = ("_full", "_value")

    def __init__(self):
        self._full, self._value = False, None

    def store(self, value) -> None:
        """Keeps the value.

        Raises:
            StoreException: when there is one already.
        """
        if self._full:
            raise StoreException(
                "the function was called twice: its auxiliary result is stored already"
            )
        self._full, self._value = True, value

    def reset(self) -> None:
        """Forgets the value."""
        self._full, self._value = False, None

    @property
    def val(self):
        if not self._full:
            raise StoreException("the auxiliary result is not there yet: call the function first")
        return self._value

    def __bool__(self):
        return self._full


class WrappedFun:
    """A function, the transformations around it from the outermost in, and keyword arguments of the function."""

    __slots__ = (
        "__weakref__",
        "debug_info",
        "f",
        "f_transformed",
        "in_type",
        "params",
        "stores",
        "transforms",
    )

    def __init__(
        self,
        f: Callable,
        f_transformed: Callable,
        transforms: tuple = (),
        stores: tuple = (),
        params: tuple = (),
        debug_info: DebugInfo | None = None,
    ):
        self.f, self.f_transformed = f, f_transformed
        self.transforms, self.stores, self.params = transforms, stores, params
        self.in_type = None
        self.debug_info = debug_info or DebugInfo(self.__name__)

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed function>")

    def wrap(self, gen: Callable, statics: tuple, store: Store | None) -> WrappedFun:
        """This function inside one more transformation: `gen(function, [store,] *statics, *args)`."""
        extra = (store,) if store is not None else ()
        outer = functools.partial(gen, self.f_transformed, *extra, *statics)
        return WrappedFun(
            self.f,
            outer,
            ((gen, statics), *self.transforms),
            (store, *self.stores),
            self.params,
            self.debug_info,
        )

    def call_wrapped(self, *args, **kwargs) -> Any:
        """Calls the outermost transformation."""
        return self.f_transformed(*args, **kwargs)

    def replace_debug_info(self, debug_info: DebugInfo) -> WrappedFun:
        """The same function under other names."""
        return WrappedFun(
            self.f, self.f_transformed, self.transforms, self.stores, self.params, debug_info
        )

    def __repr__(self):
        names = [getattr(gen, "__name__", str(gen)) for gen, _ in self.transforms]
        return f"WrappedFun({' of '.join([*names, self.__name__])})"

    def __hash__(self):
        return hash((self.f, self.transforms, self.params))

    def __eq__(self, other):
        return isinstance(other, WrappedFun) and (self.f, self.transforms, self.params) == (
            other.f,
            other.transforms,
            other.params,
        )


def wrap_init(
    f: Callable, params: dict | None = None, *, debug_info: DebugInfo | None = None
) -> WrappedFun:
    """The function with no transformation around it yet; `params` are keyword arguments of every call."""
    params = params or {}
    bound = functools.partial(f, **params) if params else f
    return WrappedFun(f, bound, params=tuple(sorted(params.items())), debug_info=debug_info)


def transformation2(gen: Callable, fun: WrappedFun | None = None, *statics) -> Any:
    """Puts `gen(function, *statics, *args)`, a plain function, around `fun`. Without `fun`, a decorator."""
    if fun is None:
        return functools.partial(_around, gen)
    return _around(gen, fun, *statics)


def transformation_with_aux2(
    gen: Callable, fun: WrappedFun | None = None, *statics, use_eq_store: bool = False
) -> Any:
    """As `transformation2` for `gen(function, store, *statics, *args)`; also gives a function of what was stored."""
    if fun is None:
        return functools.partial(_around_with_aux, gen)
    return _around_with_aux(gen, fun, *statics, use_eq_store=use_eq_store)


def transformation(gen: Callable, fun: WrappedFun | None = None, *statics) -> Any:
    """As `transformation2` for a generator: it yields arguments and keywords, is sent the result, and yields its own."""
    return transformation2(functools.partial(_run_generator, gen), fun, *statics)


def transformation_with_aux(
    gen: Callable, fun: WrappedFun | None = None, *statics, use_eq_store: bool = False
) -> Any:
    """As `transformation` for a generator whose last yield is the result with an auxiliary one."""
    return transformation_with_aux2(
        functools.partial(_run_generator_with_aux, gen), fun, *statics, use_eq_store=use_eq_store
    )


def merge_linear_aux(aux1: Callable, aux2: Callable) -> tuple[bool, Any]:
    """The auxiliary result that was stored, and whether it is the first one's."""
    try:
        found = aux1()
    except StoreException:
        return False, aux2()
    try:
        aux2()
    except StoreException:
        return True, found
    raise StoreException("both auxiliary results are stored")


def cache(call: Callable, *, explain: Callable | None = None) -> Callable:
    """`call(wrapped function, *args)` with a memory: functions with equal transformations are called once."""
    from xlab.compile.tracing import context_key

    memory: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    @functools.wraps(call)
    def remembered(fun: WrappedFun, *args):
        entries = memory.setdefault(fun.f, {})
        key = (fun.transforms, fun.params, args, context_key())
        if key not in entries:
            answer = call(fun, *args)
            entries[key] = answer, [store and store.val for store in fun.stores]
            return answer
        answer, values = entries[key]
        for store, value in zip(fun.stores, values):
            if store is not None:
                store.reset()
                store.store(value)
        return answer

    remembered.cache_clear = memory.clear  # type: ignore[attr-defined]
    return remembered


def _around(gen, fun, *statics):
    return fun.wrap(gen, statics, None)


def _around_with_aux(gen, fun, *statics, use_eq_store=False):
    store = _EqualStore() if use_eq_store else Store()
    return fun.wrap(gen, statics, store), lambda: store.val


class _EqualStore(Store):
    """A store that takes the same value again."""

    __slots__ = ()

    def store(self, value) -> None:
        if self._full and self._value != value:
            raise StoreException(
                f"two calls of the function stored different values, {self._value!r} and {value!r}"
            )
        self._full, self._value = True, value


def _run_generator(gen, fun, *args, **kwargs):
    steps = gen(*args, **kwargs)
    try:
        inner, keywords = next(steps)
        return steps.send(fun(*inner, **keywords))
    finally:
        steps.close()  # what it entered, such as a trace, is left now and not when it is collected


def _run_generator_with_aux(gen, fun, store, *args, **kwargs):
    answer, aux = _run_generator(gen, fun, *args, **kwargs)
    store.store(aux)
    return answer
