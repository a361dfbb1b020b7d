"""Declared arguments of magics, from which parsing, help, completions and errors are derived.

Options stand before the Python of the line, after it or between. `--name` is an option where a space or nothing stands before it, a letter
behind it, and no bracket or string is open. Everything else is Python: `x --1`, `f(a --b)`, `"a --b"`, and `x --y` where no option
is called `y` and the notebook has a name `y`.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

from xlab.compile.equal_programs import sharing
from xlab.errors import ProcessesApart, ProcessesLate, ProcessFailed, ProcessLost
from xlab.notebook.options import names, unquoted
from xlab.notebook.tracebacks import in_words, present

_TOKEN = re.compile(
    r'''"""(?:\\.|.)*?"""|\'\'\'(?:\\.|.)*?\'\'\'|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|--[A-Za-z][\w-]*|.''',
    re.DOTALL,
)
_VALUE = re.compile(
    r"""(?:\s*=\s*|\s+)((?!--[A-Za-z])(?:'[^']*'|"[^"]*"|\([^()]*\)|\[[^\[\]]*\]|\S)+)"""
)


class Option(NamedTuple):
    """One option of a magic.

    Args:
        name: as it is written, without the dashes.
        help: one line.
        example: a value, which the help shows; an option without one is a flag.
        read: makes a value of the text; what it raises as a ValueError is shown with what was given.
        default: the value when the option is not given.
        choices: the words it takes, which are completed.
        noun: what one of them is.
        several: it takes several of the choices, with commas between them.
        alone: the value when the option is given without one.
        repeated: it may be given more than once; its values are a tuple.
        python: it takes an expression, which goes on until the next option.
        dest: the attribute that holds the value, where it is not the name.
    """

    name: str
    help: str
    example: str = ""
    read: Callable[[str], Any] = str
    default: Any = None
    choices: tuple[str, ...] = ()
    noun: str = "value"
    several: bool = False
    alone: str = ""
    repeated: bool = False
    python: bool = False
    dest: str = ""

    @property
    def attribute(self) -> str:
        """Where the parsed value is found."""
        return self.dest or self.name.replace("-", "_")

    @property
    def written(self) -> str:
        """The option as the user writes it.

        >>> Option("repeat", "warm runs", "20").written
        '--repeat 20'
        """
        return f"--{self.name} {self.example}".rstrip()

    def value(self, text: str) -> Any:
        """The value that a text gives."""
        text = unquoted(text)
        given = names(text) if self.several else (text,)
        unknown = [word for word in given if self.choices and word not in self.choices]
        if unknown:
            raise ValueError(
                f"--{self.name} takes {'some' if self.several else 'one'} of {', '.join(self.choices)}; "
                f"there is no {self.noun} {unknown[0]!r}"
            )
        if self.several:
            return given
        try:
            return self.read(text)
        except ValueError as error:
            raise ValueError(f"--{self.name} takes {error}; given {text!r}") from None


def number_of_runs(least: int) -> Callable[[str], int]:
    """Reads `--repeat`.

    >>> number_of_runs(0)("20")
    20
    """

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise ValueError(f"a number of runs, at least {least}")
        return int(text)

    return read


class Arguments:
    """The arguments of a magic: its options, and the rest of its line.

    Args:
        name: the magic.
        options: in the order of its help.
        takes: what the rest of the line is, such as `f(x, y)`; nothing may stand there when it is empty.
        python: whether the rest is Python, where `#` begins a comment.
        cell: whether it may stand over a cell.
    """

    def __init__(
        self,
        name: str,
        options: Iterable[Option] = (),
        takes: str = "",
        python: bool = True,
        cell: bool = False,
    ):
        self.name, self.takes, self.python, self.cell = name, takes, python, cell
        self.options = {option.name: option for option in options}

    def parse(self, line: str, bound: Mapping[str, Any] | Iterable[str] = ()) -> SimpleNamespace:
        """The values of the options, as `rest` what stands beside them, as `used` the names of those given, and the `line` itself.

        `bound` are the names that the notebook has.

        >>> declared = Arguments("xtime", [Option("repeat", "warm runs", "20", int), Option("cold", "a fresh copy")], "f(x)")
        >>> for line in ("f(x --1) --repeat 3 --cold", "--cold --repeat=3 f(x --1)"):
        ...     given = declared.parse(line)
        ...     print(given.repeat, given.cold, given.rest)
        3 True f(x --1)
        3 True f(x --1)
        >>> declared.parse("f(x) --repaet 3")
        Traceback (most recent call last):
        ...
        ValueError: %xtime has no option --repaet; did you mean --repeat? Its options are --repeat 20, --cold
        """
        whole = line
        if self.python:  # as behind any expression, it only silences the value
            line = line.rstrip().removesuffix(";")
        given: dict[str, list[Any]] = {}
        expressions: dict[str, list[str]] = {}
        rest = into = [""]
        at, depth = 0, 0
        while at < len(line):
            token = _TOKEN.match(line, at)[0]  # type: ignore[index]
            free = depth == 0 and (at == 0 or line[at - 1].isspace())
            if free and token.startswith("--") and len(token) > 2:
                option = self._named(token[2:], bound)
                if option is not None:
                    at += len(token)
                    into = rest
                    if option.python:
                        into = expressions.setdefault(option.name, [""])
                        given[option.name] = []
                        at += len(re.match(r"\s*=?", line[at:])[0])  # type: ignore[index]
                        continue
                    at, value = self._value(option, line, at)
                    given[option.name] = [
                        *(given.get(option.name, ()) if option.repeated else ()),
                        value,
                    ]
                    continue
            if token == "#" and depth == 0 and self.python:
                break
            depth = max(0, depth + (token in "([{") - (token in ")]}"))
            into.append(token)
            at += len(token)
        for name, pieces in expressions.items():
            text = "".join(pieces).strip()
            if not text:
                raise self._lacks_value(self.options[name])
            given[name] = [self.options[name].value(text)]
        values = {}
        for name, option in self.options.items():
            found = given.get(name, ())
            values[option.attribute] = (
                tuple(found)
                if option.repeated
                else found[-1]
                if found
                else option.default
                if option.example
                else False
            )
        text = "".join(rest).strip()
        if text and not self.takes:
            raise ValueError(
                f"%{self.name} takes {'only options' if self.options else 'nothing'}; given {text!r}{self._known()}"
            )
        return SimpleNamespace(**values, rest=text, used=tuple(given), line=whole)

    def _named(self, name: str, bound: Mapping[str, Any] | Iterable[str]) -> Option | None:
        """The option of a name, None if the text is Python."""
        if name in self.options:
            return self.options[name]
        if self.python and name.partition("-")[0] in bound:
            return None
        near = difflib.get_close_matches(name, self.options, 1)
        raise ValueError(
            f"%{self.name} has no option --{name}"
            + (f"; did you mean --{near[0]}?" if near else "")
            + self._known(not near)
        )

    def _known(self, after_words: bool = True) -> str:
        known = ", ".join(option.written for option in self.options.values())
        return f"{'.' if after_words else ''} Its options are {known}" if known else ""

    def _lacks_value(self, option: Option) -> ValueError:
        return ValueError(f"--{option.name} takes a value, such as {option.written}")

    def _value(self, option: Option, line: str, at: int) -> tuple[int, Any]:
        """The end of an option's value, and the value."""
        found = _VALUE.match(line, at)
        if not option.example:
            if line[at:].lstrip().startswith("="):
                raise ValueError(f"--{option.name} takes no value; given {line[at:].strip()!r}")
            return at, True
        if option.alone and (
            found is None or (unquoted(found[1]) not in option.choices and "=" not in found[0])
        ):
            return at, option.value(option.alone)
        if found is None:
            raise self._lacks_value(option)
        return found.end(), option.value(found[1])

    def help(self, text: str) -> str:
        """The help of the magic, from the docstring of its method."""
        words = "[options] " * bool(self.options)
        lines = (
            [f"%%{self.name} {words}".rstrip(), f"%{self.name} {self.takes}"]
            if self.cell
            else [f"%{self.name} {words}{self.takes}".rstrip()]
        )
        lines += ["", inspect.cleandoc(text)]
        if self.options:
            lines += [
                "",
                "Options:" if self.cell else "Options, before or after the rest of the line:",
            ]
            for option in self.options.values():
                choices = f" ({', '.join(option.choices)})" if option.choices else ""
                lines += textwrap.wrap(
                    option.help + choices,
                    100,
                    initial_indent=f"  {option.written:28}  ",
                    subsequent_indent=" " * 32,
                )
        return "\n".join(lines)

    def completions(self, line: str) -> tuple[str, ...] | None:
        """Completions of a line of this magic: options after a dash, and the choices of an option."""
        if re.search(r"(^|\s)-[-\w]*$", line):
            return tuple(f"--{name}" for name in self.options)
        asked = re.search(r"(?:^|\s)--([A-Za-z][\w-]*)(?:\s*=\s*|\s+)['\"]?([\w,]*)$", line)
        option = self.options.get(asked[1]) if asked else None
        if option is not None and option.choices and (option.several or "," not in asked[2]):  # type: ignore[index]
            return option.choices
        return None


def takes(
    rest: str = "", *options: Option, python: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares the arguments of a magic's method, which is called with them parsed; its errors show the user's lines and not its own.

    What it compiles uses the executable of an equal program that is there already, be it of another magic or of a cell.

    A method with a second argument is given the cell.
    """

    def declare(method: Callable[..., Any]) -> Callable[..., Any]:
        declared = Arguments(
            method.__name__, options, rest, python, "cell" in inspect.signature(method).parameters
        )

        @functools.wraps(method)
        def magic(self: Any, line: str, *cell: str) -> Any:
            try:
                with sharing():
                    return method(self, declared.parse(line, self.shell.user_ns), *cell)
            except (ProcessesApart, ProcessesLate, ProcessFailed, ProcessLost) as error:
                in_words(error)
                raise
            except (Exception, GeneratorExit) as error:
                if not hasattr(error, "_render_traceback_"):
                    present(error, self.shell)
                raise

        magic.arguments = declared  # type: ignore[attr-defined]
        magic.__doc__ = declared.help(method.__doc__ or "")
        return magic

    return declare
