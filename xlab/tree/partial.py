"""`Partial`: a function with some arguments bound, as a container of those arguments."""

from __future__ import annotations

import functools
from typing import Any

from xlab.backend.pytree import GetAttrKey
from xlab.tree.registration import register_pytree_node


class Partial(functools.partial):
    """`functools.partial` that may be passed to and returned from transformed functions.

    The bound arguments are children; the function is part of the structure.

    Example:
        >>> add = Partial(lambda x, y: x + y, 1)
        >>> add(2)
        3
    """

    def __new__(cls, func: Any, *args: Any, **kw: Any) -> Partial:
        # functools.partial would merge an inner partial into the outer one and lose which arguments are children.
        if isinstance(func, functools.partial):
            original = func
            func = _Wrapped(original)
        return super().__new__(cls, func, *args, **kw)


class _Wrapped:
    """A partial seen as one opaque function, equal when function and arguments are."""

    def __init__(self, inner: functools.partial):
        self.inner = inner
        functools.update_wrapper(self, inner.func, updated=())

    def __call__(self, *args: Any, **kw: Any) -> Any:
        return self.inner(*args, **kw)

    def _key(self) -> tuple:
        return self.inner.func, self.inner.args, tuple(sorted(self.inner.keywords.items()))

    def __eq__(self, other: object) -> bool:
        return type(other) is _Wrapped and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self.inner.func)

    def __repr__(self) -> str:
        return repr(self.inner)


register_pytree_node(
    Partial,
    lambda p: ((p.args, p.keywords), p.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
    lambda p: (((GetAttrKey("args"), p.args), (GetAttrKey("keywords"), p.keywords)), p.func),
)
