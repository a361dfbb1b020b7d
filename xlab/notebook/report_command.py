"""`xlab report FILE.py:FUNCTION`: what `%%xjit` reports, of a function in a file, with no notebook; with `--merge` the reports of several processes as one."""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import inspect
import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import xlab
from xlab import observe
from xlab.config import config, cpu_device_count
from xlab.notebook import check_files, compile_progress, inputs, options
from xlab.notebook.export import write_html
from xlab.notebook.tracebacks import failure, shorten
from xlab.observe.beside.calls import JaxFunction, program_of
from xlab.observe.beside.recognize import belongs_to_jax, is_stage
from xlab.observe.overview.findings import kinds
from xlab.observe.overview.machines import predicting_for
from xlab.observe.records import Record, Report
from xlab.observe.records.text import text
from xlab.observe.timing.runnable import Spared
from xlab.sharding import PartitionSpec, set_mesh

_DTYPES = {
    "f32": "float32",
    "f64": "float64",
    "f16": "float16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u32": "uint32",
    "bool": "bool",
}


MOST_DEVICES = 64
"""Virtual devices that are made unasked."""


class UsageError(ValueError):
    """The command cannot be carried out; the message says what to write instead."""


def load(target: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function that `FILE.py:FUNCTION` names, and the names of its file."""
    file, colon, name = target.rpartition(":")
    if not colon or not name.isidentifier():
        raise UsageError(
            f"a function is named FILE.py:FUNCTION, such as model.py:step; given {target!r}"
        )
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"there is no file {file}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file} is no Python file: its name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{file} could not be imported: {place_of(error)}") from error
    found = getattr(module, name, None)
    if not callable(found) and not is_stage(found):
        known = [
            n
            for n, v in vars(module).items()
            if callable(v)
            and not isinstance(v, type)
            and getattr(v, "__module__", None) == module.__name__
        ]
        near = difflib.get_close_matches(name, known, 1)
        raise UsageError(
            f"{file} has no function {name!r}; "
            + (f"did you mean {near[0]}? " if near else "")
            + f"it has {', '.join(known) or 'no functions'}"
        )
    return found, vars(module)


def place_of(error: BaseException) -> str:
    """An error as one line: its class and words, and the person's own line."""
    found = failure(shorten(error))
    line = getattr(error, "lineno", None) or (found.source.line if found.source else None)
    return f"{found.kind}: {found.message}" + (
        f" (line {line})" if line and f"line {line}" not in found.message else ""
    )


def argument(word: str, names: dict[str, Any]) -> Any:
    """One argument: a type such as `f32[8,4]` (an array of ones), or a Python expression over the file's names.

    >>> argument("f32[2,3]", {}).shape, argument("[1, 2]", {})
    ((2, 3), [1, 2])
    """
    head, bracket, rest = word.partition("[")
    if bracket and head in _DTYPES and rest.endswith("]"):
        sizes = [n.strip() for n in rest[:-1].split(",") if n.strip()]
        if all(n.isdigit() for n in sizes):
            return np.ones(tuple(map(int, sizes)), _DTYPES[head])
    try:
        return eval(word, {**names, "np": np, "xlab": xlab})
    except Exception as error:
        raise UsageError(
            f"cannot read the argument {word!r}: it is neither a type such as f32[8,4] (of {', '.join(_DTYPES)}) nor an "
            f"expression over the file's names ({type(error).__name__}: {error})"
        ) from None


def check_arguments(fun: Callable[..., Any], args: list[Any], name: str) -> None:
    """Says which arguments a function takes when it was given others."""
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args)
    except TypeError as error:
        given = (
            "no arguments were"
            if not args
            else f"{len(args)} argument{'s were' * (len(args) > 1) or ' was'}"
        )
        raise UsageError(
            f"{name}{signature}: {error}; {given} given. Give one word per argument: --args 'f32[8,4]' 'f32[4,2]'"
        ) from None


def placed(
    fun: Callable[..., Any],
    args: list[Any],
    specs: Mapping[str, PartitionSpec],
    mesh: Any,
    name: str,
) -> list[Any]:
    """The arguments, placed by specs under the names of the function's parameters."""
    if not specs:
        return args
    try:
        bound = inputs.placed_call(fun, args, {}, specs, mesh, name)
    except NameError as e:
        raise UsageError(str(e)) from None
    return list(bound.args)


def enough_devices(mesh: str) -> None:
    """Sets the number of CPU devices that a mesh needs, unless it was configured."""
    wanted = math.prod(options.axes(mesh).values())
    if config.num_cpu_devices is None and cpu_device_count() == 1 < wanted <= MOST_DEVICES:
        config.update("num_cpu_devices", wanted)


def check_folder(path: str, option: str) -> None:
    """Says before anything runs that a file could not be written."""
    if not Path(path).parent.is_dir() or Path(path).is_dir():
        raise UsageError(
            f"{option} {path}: "
            + (
                "that is a folder"
                if Path(path).is_dir()
                else f"there is no folder {Path(path).parent}"
            )
        )


def check(
    jitted: Any, args: list[Any], mesh: Any, name: str, files: list[str], allowed: list[str],
    prove: bool = False,
) -> int:  # fmt: skip
    """Says what a function could do otherwise; returns 1 if there is something that is not allowed."""
    try:
        with set_mesh(mesh):
            found = [
                f for f in observe.findings(jitted, *args, measure=prove) if f.kind not in allowed
            ]
    except Exception as caught:
        print(f"xlab report: {name} failed: {place_of(shorten(caught))}", file=sys.stderr)
        return 2
    for file in files:
        check_files.write(file, name, found)
    print(text(tuple(found)) if found else f"{name}: no findings")
    return 1 if found else 0


def read(file: str) -> Report:
    """The report of which a file has the records."""
    try:
        found = Record.from_json(json.loads(Path(file).read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{file} has no records of a report: {error}") from None
    if not isinstance(found, Report):
        raise UsageError(f"{file} has a {type(found).__name__}, and no report")
    return found


def join(files: list[str], output: str, records: str | None) -> int:
    """Writes one report of those that the processes of a run wrote."""
    try:
        check_folder(output, "-o")
        if records and records != "-":
            check_folder(records, "--json")
        report = observe.merge(map(read, files))
    except ValueError as error:
        print(f"xlab report: {error}", file=sys.stderr)
        return 2
    publish(report.replace(opens=report.opens or "processes"), output, records)
    return 0


def publish(report: Report, output: str, records: str | None) -> None:
    """Writes a report as a page, and as text or records."""
    written = write_html(report, output)
    if records == "-":
        print(json.dumps(report.to_json()))
    else:
        print(text(report, times=True))
        print(f"report in {written}")
    if records and records != "-":
        Path(records).write_text(json.dumps(report.to_json()), encoding="utf-8")
        print(f"records in {records}")


def main(argv: list[str] | None = None) -> int:
    """Runs the function under a recorder and writes its report; returns 1 when the function failed."""
    parser = argparse.ArgumentParser(
        prog="xlab report", description="Writes the report of a function, with no notebook."
    )
    parser.add_argument("function", metavar="FILE.py:FUNCTION", nargs="?")
    parser.add_argument(
        "--merge",
        nargs="+",
        default=[],
        metavar="FILE.json",
        help="join the records (--json, Report.to_json) that the processes of one run wrote, instead of running a function",
    )
    parser.add_argument(
        "--args",
        nargs="*",
        default=[],
        metavar="ARG",
        help="types such as f32[8,4] (an array of ones), or Python expressions over the file's names",
    )
    parser.add_argument(
        "-o", "--output", default="xlab-report.html", help="HTML file (xlab-report.html)"
    )
    parser.add_argument(
        "--mesh", help="such as data=4,model=2, of virtual devices where there is one"
    )
    parser.add_argument(
        "--in",
        dest="ins",
        metavar="SPECS",
        help="partition specs of arguments, by name or path, * for any number: \"x=data,None; layers[*]['wq']=None,model\"",
    )
    parser.add_argument("--repeat", type=int, default=20, help="warm runs (20)")
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="also write the report's records as JSON; - prints them instead of the text",
    )
    parser.add_argument(
        "--check",
        nargs="*",
        metavar="FILE",
        help="look for findings instead of running it, and return 1 if there are some; to FILE.sarif or FILE.xml (JUnit) too",
    )
    parser.add_argument(
        "--allow", nargs="*", default=[], metavar="KIND", help="findings that --check lets pass"
    )
    parser.add_argument(
        "--prove",
        action="store_true",
        help="compile the change of each finding, and tell what a run takes before and after it",
    )
    parser.add_argument(
        "--machine",
        default="cpu",
        help="predict the step, and what its findings cost, for this machine, such as tpu:v5e",
    )
    given = parser.parse_args(argv)
    if bool(given.merge) == (given.function is not None):
        parser.error("give FILE.py:FUNCTION, or the files of several processes behind --merge")
    if given.merge:
        return join(given.merge, given.output, given.json)
    try:
        if given.check is not None:
            for file in given.check:
                check_folder(file, "--check")
            if unknown := sorted(set(given.allow) - set(kinds)):
                raise UsageError(
                    f"--allow {', '.join(unknown)}: there are the kinds {', '.join(sorted(kinds))}"
                )
        if given.repeat < 0:
            raise UsageError(f"--repeat {given.repeat}: a number of runs, or 0 for none")
        observe.machine(given.machine)
        check_folder(given.output, "-o")
        if given.json and given.json != "-":
            check_folder(given.json, "--json")
        if given.mesh:
            enough_devices(given.mesh)
        fun, names = load(given.function)
        args = [argument(word, names) for word in given.args]
        name = given.function.rpartition(":")[2]
        check_arguments(fun, args, name)
        mesh = options.mesh(given.mesh)
        args = placed(fun, args, options.specs(given.ins, paths=True), mesh, name)
    except (ValueError, OSError) as error:
        print(f"xlab report: {error}", file=sys.stderr)
        return 2
    kwargs: dict[str, Any] = {}
    if belongs_to_jax(fun, tuple(args)):
        jitted = JaxFunction(fun)
        if is_stage(fun) and not args:  # which knows what it takes
            args, kwargs = program_of(fun).ones()
    else:
        jitted = fun if hasattr(fun, "lower") else xlab.jit(fun)
    if given.check is not None:
        stage = is_stage(fun)
        with predicting_for(given.machine):
            return check(
                jitted, [] if stage else args, mesh, name, given.check, given.allow, given.prove
            )
    error = None
    with (
        set_mesh(mesh),
        compile_progress.progress_shown(compile_progress.of_terminal()),
        observe.record() as session,
    ):
        try:
            once, named = Spared(jitted, args, kwargs)()
            xlab.block_until_ready(jitted(*once, **named))
            if given.repeat > 0:
                observe.time(jitted, *args, repeat=given.repeat, **kwargs)
        except Exception as caught:
            error = session.error = shorten(caught)
    report = observe.report(session, prove=given.prove, machine=given.machine).replace(
        title=name if is_stage(fun) else getattr(fun, "__name__", given.function)
    )
    if error is not None:
        report = report.replace(error=failure(error))
    publish(report, given.output, given.json)
    if error is not None:
        print(f"xlab report: {name} failed: {place_of(error)}", file=sys.stderr)
    return 0 if error is None else 1
