"""`%xdiff f(x) g(x)`: two programs side by side, or one under two shardings."""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

from IPython.core.magic import Magics, line_magic, magics_class

import xlab
from xlab import observe
from xlab.notebook import formatters, options
from xlab.notebook.magics.base import call_of, jitted, options_of, with_user_traceback


@magics_class
class Xdiff(Magics):
    """`%xdiff`."""

    @line_magic
    @with_user_traceback
    def xdiff(self, line: str) -> None:
        """Compares two calls: equations, collectives, memory, and with --repeat the time of warm runs.

        %xdiff f(x) g(x) --repeat 20
        %xdiff f(x, w) --mesh data=4,model=2 --in 'x=data' --in 'x=None,model; w=model'
        """
        found, rest = options_of(line, "mesh", "in", "repeat")
        given = dict(found)
        calls = two_calls(rest)
        specs = [options.unquoted(value) for option, value in found if option == "in"]
        if len(calls) == 1 and len(specs) != 2:
            raise ValueError("%xdiff takes two calls, %xdiff f(x) g(x), or one under two shardings: "
                             "%xdiff f(x) --mesh data=4,model=2 --in 'x=data' --in 'x=None,model'")
        if len(calls) == 2 and specs:
            raise ValueError("--in gives one call two shardings; with two calls, place their arguments with xlab.device_put")
        sides = []
        for n in range(2):
            fun, args, kwargs, text = call_of(self.shell, calls[n % len(calls)], "xdiff")
            if specs:
                args, kwargs = _placed(fun, args, kwargs, specs[n], options.unquoted(given.get("mesh", "")))
                text = f"{text} with {specs[n]}"
            elif kwargs:
                bound = inspect.signature(fun).bind(*args, **kwargs)
                args, kwargs = bound.args, bound.kwargs
            compiled = jitted(self.shell, fun)
            sides.append((text, (_with(compiled, kwargs) if kwargs else compiled, *args)))
        repeat = given.get("repeat", "0")
        if not repeat.isdigit():
            raise ValueError(f"--repeat takes a number of runs; given {repeat!r}")
        (left, one), (right, other) = sides
        formatters.show(observe.diff(one, other, names=(left, right), repeat=int(repeat)))


def two_calls(text: str) -> list[str]:
    """The one or two calls of a line.

    >>> two_calls("f(x, 1) g(lambda a: a + 1)"), two_calls("f (x)")
    (['f(x, 1)', 'g(lambda a: a + 1)'], ['f (x)'])
    """
    if _is_call(text):
        return [text]
    for space in re.finditer(r"\s+", text):
        parts = [text[:space.start()], text[space.end():]]
        if all(map(_is_call, parts)):
            return parts
    raise ValueError(f"%xdiff takes two calls, such as %xdiff f(x) g(x); given {text!r}")


def _is_call(text: str) -> bool:
    import ast

    try:
        return isinstance(ast.parse(text.strip(), mode="eval").body, ast.Call)
    except SyntaxError:
        return False


def _with(compiled: Any, kwargs: dict[str, Any]) -> Any:
    """A jitted function with its keyword-only arguments given."""
    return xlab.jit(functools.partial(compiled, **kwargs))


def _placed(fun: Any, args: tuple, kwargs: dict, text: str, mesh: str) -> tuple[tuple, dict]:
    """Arguments placed by specs under the names of their parameters."""
    bound = inspect.signature(fun).bind(*args, **kwargs)
    over = options.mesh(mesh or None)
    for name, spec in options.specs(text).items():
        if name not in bound.arguments:
            raise NameError(f"--in names {name!r}, which is no argument of the call; its arguments are {', '.join(bound.arguments)}")
        sharding = options.named_sharding(over, spec, name)
        bound.arguments[name] = xlab.tree.map(lambda x, s=sharding: xlab.device_put(x, s), bound.arguments[name])
    return bound.args, bound.kwargs
