"""`%xdiff f(x) g(x)`: two programs side by side, or one under two shardings."""

from __future__ import annotations

import functools
import inspect
import re
from types import SimpleNamespace
from typing import Any

from IPython.core.magic import Magics, line_magic, magics_class

import xlab
from xlab import observe
from xlab.notebook import formatters, inputs, options
from xlab.notebook.magics.arguments import Option, number_of_runs, takes
from xlab.notebook.magics.base import STATIC, call_of, jitted, plain_function
from xlab.observe.programs.stage_function import StageFunction
from xlab.observe.programs.view_jits import function_of
from xlab.sharding import Mesh


@magics_class
class Xdiff(Magics):
    """`%xdiff`."""

    @line_magic
    @takes(
        "f(x) g(x)",
        Option("mesh", "the mesh of --in, in place of the current one", "data=4,model=2"),
        Option(
            "in",
            "partition specs of the arguments of one call, by name; twice",
            "'x=data; w=None,model'",
            repeated=True,
            dest="ins",
        ),
        Option("repeat", "number of warm runs of each", "20", number_of_runs(0), default=0),
        STATIC,
    )
    def xdiff(self, given: SimpleNamespace) -> None:
        """Compares two calls, or one under two shardings: equations, collectives, memory, and with --repeat the time of warm runs.

        %xdiff f(x) g(x) --repeat 20
        %xdiff f(x, w) --mesh data=4,model=2 --in 'x=data' --in 'x=None,model; w=model'
        %xdiff f(x, n) g(x) --static n
        """
        calls = two_calls(given.rest)
        specs = given.ins
        if len(calls) == 1 and len(specs) != 2:
            raise ValueError(
                "%xdiff takes two calls, %xdiff f(x) g(x), or one under two shardings: "
                "%xdiff f(x) --mesh data=4,model=2 --in 'x=data' --in 'x=None,model'"
            )
        if len(calls) == 2 and specs:
            raise ValueError(
                "--in gives one call two shardings; with two calls, place their arguments with xlab.device_put"
            )
        sides = []
        asked = [call_of(self.shell, calls[n % len(calls)], "xdiff") for n in range(2)]
        static = _static_of([fun for fun, *_ in asked], given.static)
        for n, (fun, args, kwargs, text) in enumerate(asked):
            if specs:
                args, kwargs = _placed(fun, args, kwargs, specs[n], options.mesh(given.mesh))
                text = f"{text} with {specs[n]}"
            elif kwargs and function_of(fun) is fun:
                bound = inspect.signature(fun).bind(*args, **kwargs)
                args, kwargs = bound.args, bound.kwargs
            compiled = jitted(self.shell, fun, static[n], args, kwargs)
            sides.append((text, (_with(compiled, kwargs) if kwargs else compiled, *args)))
        (left, one), (right, other) = sides
        formatters.show(observe.diff(one, other, names=(left, right), repeat=given.repeat))


def two_calls(text: str) -> list[str]:
    """The one or two calls of a line.

    >>> two_calls("f(x, 1) g(lambda a: a + 1)"), two_calls("f (x)")
    (['f(x, 1)', 'g(lambda a: a + 1)'], ['f (x)'])
    """
    if _is_call(text):
        return [text]
    for space in re.finditer(r"\s+", text):
        parts = [text[: space.start()], text[space.end() :]]
        if all(map(_is_call, parts)):
            return parts
    raise ValueError(f"%xdiff takes two calls, such as %xdiff f(x) g(x); given {text!r}")


def _is_call(text: str) -> bool:
    import ast

    try:
        return isinstance(ast.parse(text.strip(), mode="eval").body, ast.Call)
    except SyntaxError:
        return False


def _static_of(funs: list[Any], given: str | None) -> list[str | None]:
    """Of the names after `--static`, those of each function that is not compiled yet: two calls need not have the same arguments."""
    names = options.names(given)
    if not names:
        return [None] * len(funs)
    plain = map(plain_function, funs)
    known = [set(inspect.signature(f).parameters) if f is not None else set() for f in plain]
    strange = [name for name in names if not any(name in k for k in known)]
    if strange:
        there = ", ".join(sorted(set().union(*known))) or "none"
        raise ValueError(
            f"--static {given}: of the functions that are not compiled yet none has an argument {', '.join(map(repr, strange))}; "
            f"there are: {there}. A jitted function has static_argnames of its own"
        )
    return [",".join(name for name in names if name in k) or None for k in known]


def _with(compiled: Any, kwargs: dict[str, Any]) -> Any:
    """A jitted function with its keyword-only arguments given, or a stage with all that are by keyword."""
    if isinstance(compiled, StageFunction):
        return StageFunction(compiled.stage, kwargs)
    return xlab.jit(functools.partial(compiled, **kwargs))


def _placed(fun: Any, args: tuple, kwargs: dict, text: str, over: Mesh) -> tuple[tuple, dict]:
    """Arguments placed by specs under the names of their parameters."""
    specs = options.specs(text, paths=True)
    bound = inputs.placed_call(fun, args, kwargs, specs, over)
    return bound.args, bound.kwargs
