"""The forms of a program as texts with source maps: from each printed line to the user's line that it comes from.

A form is a `Pass`, by its name: `jaxpr`, `hlo:stable-hlo`, `hlo:original` (as the compiler gets it) and `hlo:optimized`; programs register
more. The places are those that `observe.program` knows: an equation's own, and an operation's by the equation that it comes from.
"""

from __future__ import annotations

import linecache
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from xlab.compile.jit import jit
from xlab.compile.tracing import own
from xlab.config import flag_context
from xlab.core.jaxpr import JaxprEqn, open_jaxpr
from xlab.core.printing import located_text
from xlab.core.source_info import position, shown_name
from xlab.observe.programs import hlo as _hlo
from xlab.observe.programs.program import hlo_level, mlir_level
from xlab.observe.programs.source_map import MappingsGenerator, SourceMap
from xlab.observe.programs.stages import program_stages
from xlab.transforms.make_jaxpr import make_jaxpr

Place = tuple[str, int, int]  # a file, line from 1, column from 0


@dataclass(frozen=True)
class SourceMapDump:
    """A printed form of a program (`generated_code`), the map to its sources, and the name of the pass that made both."""

    source_map: SourceMap
    generated_code: str
    pass_name: str


@dataclass(frozen=True)
class Pass:
    """A form of programs.

    Args:
        name: what it is called; no two passes have the same.
        compile_fn: `compile_fn(work_dir, f, f_args, f_kwargs, **pass_kwargs)` makes what is printed; `work_dir` is an empty folder that is
            removed afterwards.
        generate_dump: `generate_dump(made, **pass_kwargs)` prints it, as a `SourceMapDump`.
    """

    name: str
    compile_fn: Callable[..., Any]
    generate_dump: Callable[..., SourceMapDump]


def generate_sourcemaps(
    f: Callable, passes: Sequence[Pass], **pass_kwargs: Any
) -> Callable[..., list[SourceMapDump]]:
    """A function of the arguments of `f` that returns forms of its program with their source maps; nothing is run.

    Args:
        f: a function, jitted or not.
        passes: which forms, as `all_passes()` or `filter_passes("hlo:.*")`.
        pass_kwargs: for the passes. `xla_compiler_flags`, a dict, are options of the compiler for `hlo:optimized`.

    Example:
        >>> import xlab.numpy as jnp
        >>> (dump,) = generate_sourcemaps(lambda x: jnp.sin(x) * 2, filter_passes("jaxpr"))(1.0)
        >>> print(dump.generated_code)
        { lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = mul b 2.0:f32[] in (c,) }
        >>> [len(segment) for segment in dump.source_map.mappings[0]]  # sin, what is between them, mul, what is behind
        [4, 1, 4, 1]
    """

    def dumps(*args: Any, **kwargs: Any) -> list[SourceMapDump]:
        made = []
        for p in passes:
            with tempfile.TemporaryDirectory() as work_dir:
                compiled = p.compile_fn(work_dir, f, args, kwargs, **pass_kwargs)
                made.append(p.generate_dump(compiled, **pass_kwargs))
        return made

    return dumps


def register_pass(pass_: Pass) -> None:
    """Adds a form to `all_passes()`.

    Raises:
        ValueError: there is one of this name.
    """
    if pass_.name in _passes:
        raise ValueError(
            f"there is a pass {pass_.name!r} already; the names taken are {', '.join(_passes)}"
        )
    _passes[pass_.name] = pass_


def all_passes() -> list[Pass]:
    """The forms that programs are printed in, from the first to the last."""
    return list(_passes.values())


def filter_passes(regex: str) -> list[Pass]:
    """The passes whose names begin with what a regular expression says.

    >>> [p.name for p in filter_passes("hlo:o")]
    ['hlo:original', 'hlo:optimized']
    """
    return [p for p in all_passes() if re.match(regex, p.name)]


def compile_with_env(
    f: Callable,
    f_args: Sequence[Any],
    f_kwargs: dict[str, Any],
    env_flags: dict[str, Any],
    compiler_flags: dict[str, Any],
) -> None:
    """Compiles a function anew for its arguments, with options of this package and of the compiler set meanwhile: for passes that read what
    the compiler writes into a folder."""
    with ExitStack() as stack:
        for name, value in env_flags.items():
            stack.enter_context(flag_context(name, value))
        _lowered(f, f_args, f_kwargs).compile(compiler_options=dict(compiler_flags))


def canonicalize_filename(file_name: str) -> str:
    """What a source is called in maps: a cell of a notebook by its number, anything else by its path."""
    return shown_name(file_name) or file_name


def create_mlir_sourcemap(mlir_dump: str) -> SourceMap:
    """The source map of an MLIR module that was printed with locations, as by `lowered.as_text(debug_info=True)`.

    A line comes from where the location at its end says: of calls the innermost, of several operations in one the first that is known.

    Example:
        >>> create_mlir_sourcemap('%0 = stablehlo.sine %a : tensor<f32> loc("sin"(#loc1))\\n#loc1 = loc("wave.py":7:3)').mappings
        [[(0, 0, 6, 2)], []]
    """
    lines = mlir_dump.splitlines()
    defined = {m[1]: m[2] for m in map(_DEFINITION.match, lines) if m}

    def first(text: str, seen: tuple[str, ...] = ()) -> Place | None:
        for m in _FILE_OR_NAME.finditer(text):
            if m["file"] is not None:
                column = max(int(m["column"]) - 1, 0)  # MLIR's are from 1
                return m["file"], int(m["line"]), column
            if m["ref"] in defined and m["ref"] not in seen:
                found = first(defined[m["ref"]], (*seen, m["ref"]))
                if found is not None:
                    return found
        return None

    def at_end(line: str) -> Place | None:
        start = line.rfind(" loc(")
        there = start >= 0 and line.endswith(")") and not _DEFINITION.match(line)
        return first(line[start:]) if there else None

    return _source_map([[(_indent(line), at_end(line))] for line in lines])


_DEFINITION = re.compile(r"(#\w+) = loc\((.*)\)$")
_FILE_OR_NAME = re.compile(
    r'"(?P<file>(?:[^"\\]|\\.)*)":(?P<line>\d+):(?P<column>\d+)|"(?:[^"\\]|\\.)*"|(?P<ref>#\w+)'
)


def parse_hlo_dump(text: str) -> SourceMap:
    """The source map of the text of an HLO module, as `compiled.as_text()` or a dump of the compiler has it.

    A line comes from the innermost frame that its metadata names: in tables before the computations, or, in older texts, by itself.

    Example:
        >>> parse_hlo_dump('  %s = f32[] sine(%x), metadata={op_name="sin" source_file="wave.py" source_line=7}').mappings
        [[(2, 0, 6, 0)]]
    """
    lines = text.splitlines()
    tables: dict[str, dict[str, str]] = {name: {} for name in _TABLES}
    rows: dict[str, str] | None = None
    for line in lines:
        if line in tables:
            rows = tables[line]
        elif rows is not None and (row := _ROW.match(line)):
            rows[row[1]] = row[2]
        else:
            rows = None
    names, locations, frames = tables.values()

    def place(line: str) -> Place | None:
        start = line.rfind("metadata={")
        if start < 0:
            return None
        said = line[start:]
        if by_itself := _SOURCE_FILE.search(said):
            column = _number("source_column", said) or "1"
            return by_itself[1], int(_number("source_line", said) or 1), max(int(column) - 1, 0)
        frame = frames.get(_number("stack_frame_id", said), "")
        at = locations.get(_number("file_location_id", frame), "")
        file = names.get(_number("file_name_id", at))
        if file is None:
            return None
        column = _number("column", at) or "1"
        return file.strip('"'), int(_number("line", at) or 1), max(int(column) - 1, 0)

    return _source_map([[(_indent(line), place(line))] for line in lines])


def _number(name: str, text: str) -> str:
    """The digits of a field of metadata; empty where there is none."""
    found = re.search(rf"\b{name}=(\d+)", text)
    return found[1] if found else ""


_TABLES = ("FileNames", "FileLocations", "StackFrames")
_ROW = re.compile(r"(\d+) (.*)$")
_SOURCE_FILE = re.compile(r'source_file="((?:[^"\\]|\\.)*)"')


# ------------------------------------------------------------------------------------------------------ own passes


def _trace(work_dir: str, f: Callable, f_args: Any, f_kwargs: Any, **_: Any) -> Any:
    return make_jaxpr(f)(*f_args, **f_kwargs).jaxpr


def _print_jaxpr(jaxpr: Any, **_: Any) -> SourceMapDump:
    text, located = located_text(open_jaxpr(jaxpr))
    lines = [[(column, _place_of(eqn)) for column, eqn in line] for line in located]
    return SourceMapDump(_source_map(lines), text, "jaxpr")


def _lower(work_dir: str, f: Callable, f_args: Any, f_kwargs: Any, **_: Any) -> Any:
    return _lowered(f, f_args, f_kwargs)


def _lowered(f: Any, f_args: Any, f_kwargs: Any) -> Any:
    return (f if own(f, "lower") is not None else jit(f)).lower(*f_args, **f_kwargs)


def _print_stablehlo(lowered: Any, **_: Any) -> SourceMapDump:
    return _linked("hlo:stable-hlo", lowered, mlir_level("", lowered.as_text(debug_info=True)))


def _print_original(lowered: Any, **_: Any) -> SourceMapDump:
    return _linked("hlo:original", lowered, hlo_level("", _hlo.parse(lowered.as_text("hlo"))))


def _print_optimized(
    lowered: Any, xla_compiler_flags: dict[str, Any] | None = None, **_: Any
) -> SourceMapDump:
    compiled = lowered.compile(compiler_options=xla_compiler_flags)
    return _linked("hlo:optimized", lowered, hlo_level("", _hlo.parse(compiled.as_text())))


def _linked(name: str, lowered: Any, level: Any) -> SourceMapDump:
    """A form whose lines are linked to equations; a line of several is mapped to the first that has a place."""
    equations = program_stages(lowered).equations
    links = dict(level.links)
    lines = []
    for number, line in enumerate(level.text.splitlines(), 1):
        places = (_place_of(equations[e]) for e in links.get(number, ()) if e in equations)
        lines.append([(_indent(line), next(filter(None, places), None))])
    return SourceMapDump(_source_map(lines), level.text, name)


def _place_of(eqn: JaxprEqn | None) -> Place | None:
    code = eqn.source_info.code if eqn is not None else None
    if eqn is None or code is None:
        return None
    at = position(code, eqn.source_info.lasti)
    return code.co_filename, at.line, at.column


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _source_map(lines: Iterable[Sequence[tuple[int, Place | None]]]) -> SourceMap:
    """The map of printed lines, each with the columns where something of another place begins."""
    files: dict[str, int] = {}
    places = MappingsGenerator()
    for line in lines:
        places.new_group()
        before: Place | None = None
        for column, place in line:
            if place is not None:
                number = files.setdefault(place[0], len(files))
                places.new_segment(column, number, place[1] - 1, place[2])
            elif before is not None:
                places.new_segment(column)
            before = place
    contents = ["".join(linecache.getlines(file)) for file in files]
    return SourceMap(3, [canonicalize_filename(f) for f in files], contents, [], places.mappings())


_passes: dict[str, Pass] = {}

register_pass(Pass("jaxpr", _trace, _print_jaxpr))
register_pass(Pass("hlo:stable-hlo", _lower, _print_stablehlo))
register_pass(Pass("hlo:original", _lower, _print_original))
register_pass(Pass("hlo:optimized", _lower, _print_optimized))
