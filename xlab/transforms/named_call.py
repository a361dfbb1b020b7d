"""`named_call`: a function whose equations stand under its name in programs and profiles."""

from __future__ import annotations

from collections.abc import Callable

from xlab.compile.tracing import function_name
from xlab.core.trace import named_scope
from xlab.transforms.arguments import check_callable, wraps


def named_call(fun: Callable, *, name: str | None = None) -> Callable:
    """`fun` with everything it traces under the scope `name` (its own name by default).

    Example:
        >>> import xlab
        >>> float(xlab.named_call(lambda x: x + 1, name="increment")(1.0))
        2.0
    """
    check_callable(fun, "named_call")
    scope = name or function_name(fun)

    @wraps(fun)
    def wrapped(*args, **kwargs):
        with named_scope(scope):
            return fun(*args, **kwargs)

    return wrapped
