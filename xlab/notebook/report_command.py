"""`xlab report FILE.py:FUNCTION`: what `%%xjit` reports, of a function in a file, with no notebook."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import xlab
from xlab import observe
from xlab.notebook import heartbeat, options
from xlab.notebook.export import write_html
from xlab.notebook.tracebacks import failure, shorten
from xlab.observe.text import text
from xlab.sharding import set_mesh

_DTYPES = {"f32": "float32", "f64": "float64", "f16": "float16", "i32": "int32", "i64": "int64", "u8": "uint8", "u32": "uint32",
           "bool": "bool"}


def load(target: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function that `FILE.py:FUNCTION` names, and the names of its file."""
    file, colon, name = target.rpartition(":")
    if not colon or not name.isidentifier():
        raise ValueError(f"a function is named FILE.py:FUNCTION; given {target!r}")
    path = Path(file)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.resolve().parent))
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if not callable(found):
        known = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", None) == module.__name__]
        raise AttributeError(f"{file} has no function {name!r}; it has {', '.join(known) or 'none'}")
    return found, vars(module)


def argument(word: str, names: dict[str, Any]) -> Any:
    """One argument: a type such as `f32[8,4]` (an array of ones), or a Python expression over the file's names.

    >>> argument("f32[2,3]", {}).shape, argument("[1, 2]", {})
    ((2, 3), [1, 2])
    """
    head, bracket, rest = word.partition("[")
    if bracket and head in _DTYPES and rest.endswith("]"):
        shape = tuple(int(n) for n in rest[:-1].split(",") if n.strip())
        return np.ones(shape, _DTYPES[head])
    return eval(word, {**names, "np": np, "xlab": xlab})


def main(argv: list[str] | None = None) -> int:
    """Runs the function under a recorder and writes its report; returns 1 when the function failed."""
    parser = argparse.ArgumentParser(prog="xlab report", description="Writes the report of a function, with no notebook.")
    parser.add_argument("function", metavar="FILE.py:FUNCTION")
    parser.add_argument("--args", nargs="*", default=[], metavar="ARG",
                        help="types such as f32[8,4] (an array of ones), or Python expressions over the file's names")
    parser.add_argument("-o", "--output", default="xlab-report.html", help="HTML file (xlab-report.html)")
    parser.add_argument("--mesh", help="such as data=4,model=2")
    parser.add_argument("--repeat", type=int, default=20, help="warm runs (20)")
    parser.add_argument("--json", metavar="FILE", help="also write the report's records as JSON")
    given = parser.parse_args(argv)
    try:
        fun, names = load(given.function)
        args = [argument(word, names) for word in given.args]
        mesh = options.mesh(given.mesh)
    except (ValueError, OSError, AttributeError, NameError, SyntaxError) as error:
        print(f"xlab report: {error}", file=sys.stderr)
        return 2
    jitted = fun if hasattr(fun, "lower") else xlab.jit(fun)
    error = None
    with set_mesh(mesh), heartbeat.beating(heartbeat.of_terminal()), observe.record() as session:
        try:
            xlab.block_until_ready(jitted(*args))
            if given.repeat > 0:
                observe.time(jitted, *args, repeat=given.repeat)
        except Exception as caught:
            error = shorten(caught)
    report = observe.report(session).replace(title=getattr(fun, "__name__", given.function))
    if error is not None:
        report = report.replace(error=failure(error))
    print(text(report, times=True))
    print(f"report in {write_html(report, given.output)}")
    if given.json:
        Path(given.json).write_text(json.dumps(report.to_json()), encoding="utf-8")
        print(f"records in {given.json}")
    return 0 if error is None else 1
