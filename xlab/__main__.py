"""The `xlab` command. Without a subcommand: versions, devices, the matrix of rules, lines per room.

    xlab                  what is here
    xlab tour             train a small transformer on a mesh and write a report of it
    xlab lab              JupyterLab on the tour's notebooks
    xlab report FILE:FUN  the report of a function, with no notebook
    xlab run SCRIPT.py    a program written for JAX, on xlab
    xlab doctor           what is installed and what would not work

This file parses and prints; what the subcommands do lives in `xlab.notebook` and `xlab.as_jax`, and is imported when asked for.
"""

from __future__ import annotations

import argparse
import platform
import sys
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# Subcommand: (module with `main(argv) -> exit status`, one line of help).
COMMANDS = {
    "tour": ("xlab.notebook.tour", "train a small transformer on a mesh and write a report of it"),
    "lab": ("xlab.notebook.lab", "open JupyterLab on the tour's notebooks"),
    "report": (
        "xlab.notebook.report_command",
        "write the report of FILE.py:FUNCTION, with no notebook",
    ),
    "run": ("xlab.jax_alias.run", "run SCRIPT.py, written for JAX, with xlab in the place of JAX"),
    "doctor": ("xlab.notebook.doctor", "what is installed, what would not work, how to fix it"),
}
_PACKAGES = ("jaxlib", "numpy", "ipython", "ipywidgets", "anywidget", "matplotlib", "graphviz")


def main(argv: list[str] | None = None) -> int:
    """Runs the command line `argv` (default: the process's own) and returns the exit status.

    Example:
        >>> main(["--version"])
        xlab 0.1.0
        0
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv and argv[0] in COMMANDS:  # the subcommand reads its own options and prints its own help
        module, _ = COMMANDS[argv[0]]
        return int(import_module(module).main(argv[1:]) or 0)
    if argv and not argv[0].startswith("-"):
        near = get_close_matches(argv[0], COMMANDS, 1)
        print(
            f"xlab: there is no command {argv[0]!r}; "
            + (f"did you mean {near[0]}? " if near else "")
            + f"There are {', '.join(COMMANDS)}; xlab --help explains them.",
            file=sys.stderr,
        )
        raise SystemExit(2)
    args = _parser().parse_args(argv)
    print(f"xlab {_version('xlab')}" if args.version else overview(all_rules=args.rules))
    return 0


def overview(*, all_rules: bool = False) -> str:
    """Text of the overview: versions, devices, primitives by tables, lines per room."""
    import xlab

    devices = xlab.devices()
    lines = [
        f"xlab {_version('xlab')}, Python {platform.python_version()}",
        "  " + "  ".join(f"{name} {_version(name)}" for name in _PACKAGES),
        "",
        f"devices   {len(devices)} × {devices[0].platform}"
        + (f" ({devices[0].device_kind})" if devices[0].device_kind != devices[0].platform else ""),
        "",
        *rule_matrix(all_rules=all_rules),
        "",
        *lines_per_room(),
    ]
    return "\n".join(lines)


def rule_matrix(*, all_rules: bool = True) -> list[str]:
    """Primitives by rule tables: `●` a rule, `·` none and a stated reason, `○` a hole, blank where none is needed."""
    from xlab.core.primitive import all_primitives
    from xlab.core.rules import tables

    columns = list(tables().values())
    primitives = sorted(all_primitives(), key=lambda p: (p.module, p.name))
    wide = max((len(p.name) for p in primitives), default=0)
    out = [f"rules     {len(primitives)} primitives   ● rule   · none, with a reason   ○ missing"]
    heads = [table.name.rpartition(".")[2].removeprefix("primitive_") for table in columns]
    totals = ["abstract", *heads]
    out.append("  " + "".ljust(wide) + "  " + "  ".join(totals))
    counts = [0] * len(totals)
    family = None
    for primitive in primitives:
        marks = ["●" if primitive.has_abstract_eval else "○"]
        for table in columns:
            marks.append(_mark(primitive, table))
        counts = [n + (mark == "●") for n, mark in zip(counts, marks, strict=True)]
        if not all_rules:
            continue
        if primitive.module != family:
            family = primitive.module
            out.append(f"  {family}")
        out.append(
            "  "
            + primitive.name.ljust(wide)
            + "  "
            + "  ".join(
                mark.center(len(head)) for mark, head in zip(marks, totals, strict=True)
            ).rstrip()
        )
    out.append(
        "  "
        + "with a rule".ljust(wide)
        + "  "
        + "  ".join(
            str(n).center(len(head)) for n, head in zip(counts, totals, strict=True)
        ).rstrip()
    )
    return out


def _mark(primitive, table) -> str:
    if primitive in table:
        return "●"
    if table.excuse_for(primitive):
        return "·"
    return "○" if table.required else " "


def lines_per_room() -> list[str]:
    """How many files and lines each room holds."""
    package = Path(__file__).parent
    rooms: dict[str, list[int]] = {}
    for path in sorted(package.rglob("*")):
        if path.suffix in (".py", ".js", ".css") and "__pycache__" not in path.parts:
            parts = path.relative_to(package).parts
            room = parts[0] if len(parts) > 1 else "(top)"
            entry = rooms.setdefault(room, [0, 0])
            entry[0] += 1
            entry[1] += path.read_bytes().count(b"\n")
    wide = max(map(len, rooms))
    total = sum(entry[1] for entry in rooms.values())
    return [
        f"rooms     {total} lines",
        *(
            f"  {room.ljust(wide)}  {files:4d} files  {count:6d} lines"
            for room, (files, count) in sorted(rooms.items())
        ),
    ]


def _parser() -> argparse.ArgumentParser:
    commands = "\n".join(f"  {name.ljust(8)} {line}" for name, (_, line) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="xlab",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Without a command: versions, devices, the matrix of rules, lines per room.",
        epilog=f"commands (each has its own --help):\n{commands}",
    )
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    parser.add_argument("--rules", action="store_true", help="print the row of every primitive")
    return parser


def _version(name: str) -> str:
    if name == "xlab":
        try:
            return version(name)
        except PackageNotFoundError:
            return "0.1.0"  # run from a checkout that is not installed
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


if __name__ == "__main__":
    sys.exit(main())
