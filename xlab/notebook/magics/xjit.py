"""`%%xjit`: the cell is the jitted function. `%xjit f(x)`: a call, compiled, with its report."""

from __future__ import annotations

import ast
import time
import types
from types import SimpleNamespace
from typing import Any

from IPython.core.magic import Magics, line_cell_magic, magics_class

import xlab
from xlab import observe
from xlab.backend import caches
from xlab.core.source_info import Position
from xlab.notebook import inputs, options
from xlab.notebook.cell import Cell
from xlab.notebook.magics.arguments import Option, number_of_runs, takes
from xlab.notebook.magics.base import CellFile, call_of, cell_file, jitted
from xlab.notebook.recording import Recording, recording, report_of, show_report
from xlab.notebook.tracebacks import present
from xlab.observe.beside.calls import JaxFunction
from xlab.observe.beside.recognize import belongs_to_jax
from xlab.observe.comparison import targets
from xlab.sharding import set_mesh


@magics_class
class Xjit(Magics):
    """`%%xjit` and `%xjit`."""

    @line_cell_magic
    @takes(
        "f(x)",
        Option("mesh", "make a mesh, or use the current one if it is the same", "'data=4,model=2'"),
        Option(
            "in",
            "partition specs of inputs, by name or path, * for any number",
            "'x=data,None; layers[*]['wq']=None,model'",
            dest="ins",
        ),
        Option("out", "partition specs of outputs, by name", "'y=data'", dest="outs"),
        Option("static", "names that stay Python values although they hold arrays", "n,m"),
        Option("donate", "inputs whose memory the outputs may use", "x,y"),
        Option(
            "show",
            "only these parts of the report",
            "jaxpr,hlo,…",
            choices=options.PARTS,
            noun="part",
            several=True,
            default=(),
        ),
        Option(
            "hide",
            "all parts of the report but these",
            "memory,…",
            choices=options.PARTS,
            noun="part",
            several=True,
            default=(),
        ),
        Option("no-run", "trace and compile, but do not run: needs shapes only"),
        Option(
            "repeat",
            "run again this often, for the steady time",
            "20",
            number_of_runs(0),
            default=0,
        ),
        Option("passes", "capture the compiler's passes (compiles a second time)"),
        Option("profile", "measure each operation"),
        Option(
            "prove",
            "compile the change of each finding, and tell what a run takes before and after it",
        ),
        Option(
            "target",
            "also compile for a TPU that need not be there, and set the two side by side (needs the extra tpu)",
            "tpu:v5e:4x4",
        ),
        Option(
            "machine",
            "predict the step, and what its findings cost, for another machine",
            "tpu:v5e",
            default="cpu",
        ),
        Option("save", "write the report to a file", "report.html"),
        Option("quiet", "run, but show no report"),
        Option("processes", "in the processes of %xprocesses, as by itself once there are some"),
        Option("here", "in this kernel, although there are processes"),
    )
    def xjit(self, given: SimpleNamespace, cell: str | None = None) -> Any:
        """Compiles the cell as one function and shows how it was traced, sharded, compiled and run.

        The names it reads that hold arrays, or containers of arrays, are the inputs; the names it assigns are the outputs.
        Everything else behaves as in an ordinary cell. With an error all names are as they were.
        """
        observe.machine(given.machine)  # refused before anything runs
        if cell is None:
            if unfit := [name for name in given.used if name not in ("static", "prove", "machine")]:
                raise ValueError(
                    f"--{unfit[0]} is an option of %%xjit, over a cell; %xjit on a line takes a call, --static, --prove and --machine"
                )
            fun, args, kwargs, _ = call_of(self.shell, given.rest, "xjit")
            with recording(given.rest, self.shell) as run:
                run.prove, run.machine = bool(given.prove), given.machine
                result = xlab.block_until_ready(
                    jitted(self.shell, fun, given.static, args, kwargs)(*args, **kwargs)
                )
            show_report(run)
            return result
        if given.rest:
            raise ValueError(
                f"%%xjit takes options, and the program in the lines below it; given {given.rest!r}"
            )
        parts = frozenset(given.show or options.PARTS) - frozenset(given.hide)
        run = None
        place = cell_file(self.shell, "xjit", given.line, cell)
        try:
            flagged = not given.quiet and bool(parts & {"shardings", "collectives"})
            with recording(f"In[{place.number}]", self.shell, place.file, flagged) as run:
                run.prove, run.machine = bool(given.prove), given.machine
                result = run_cell(run, given, self.shell.user_ns, place)
        except SyntaxError as error:
            raise present(error, self.shell) from None
        finally:
            if run is not None and not given.quiet:
                report = show_report(run, parts, now=bool(given.save))
            elif run is not None and given.save:
                report = report_of(run, parts)
            if run is not None and given.save and report is not None:
                from xlab.notebook.export import write_html

                print(f"report in {write_html(report, given.save)}")
        return result


def run_cell(run: Recording, given: Any, names: dict[str, Any], place: CellFile) -> Any:
    """Makes the function, places its inputs, runs it, writes what it leaves; returns the last expression's value."""
    _check_runs(given)  # refused before anything runs
    ins, outs = options.specs(given.ins, paths=True), options.specs(given.outs)
    mesh = options.mesh_to_compile_for(given.mesh) if given.target else options.mesh(given.mesh)
    if given.target:
        targets.check(given.target)
    made = Cell(
        place.source,
        names,
        filename=place.file,
        first_line=place.first,
        static=options.names(given.static),
        named=tuple(outs),
    )
    _check_names(made, "--in", ins)
    _check_names(made, "--donate", options.names(given.donate))
    # As a function of the names it uses: those say whose it is.
    written = types.FunctionType(compile(place.source, place.file, "exec"), names, "this cell")
    if belongs_to_jax(written, tuple(made.arguments())):
        _plain_only(given)
        return made.commit(run_by_jax(made.function(), made.arguments()))
    shardings = None
    if outs:
        shardings = (tuple(options.named_sharding(mesh, s, n) for n, s in outs.items()), None)
    jitted = _jitted(made, shardings, options.names(given.donate))
    with set_mesh(mesh):
        arguments = [
            inputs.placed(value, ins, mesh, name)
            for name, value in zip(made.reads, made.arguments(), strict=True)
        ]
        run.doing = "compiling"
        if given.no_run or options.is_elsewhere(mesh):
            compiled = jitted.lower(*arguments).compile()
            _target(run, given, compiled)
            if not given.no_run:
                print(
                    f"compiled and not run: the mesh has {mesh.size} devices, this machine {xlab.device_count()}; all names are as they were"
                )
            return None
        started = time.perf_counter()
        try:
            returned = xlab.block_until_ready(jitted(*arguments))
        except RuntimeError as error:
            if (deleted := _deleted_at(made, place)) is not None:
                error.place = deleted  # type: ignore[attr-defined]
            raise
        run.doing = f"repeating, after {time.perf_counter() - started:.2g} s,"
        _repeat(jitted, arguments, given)
        _extras(run, given, jitted, arguments)
    return made.commit(returned)


def _deleted_at(made: Cell, place: CellFile) -> Position | None:
    """Where a cell first reads an input that was deleted or donated before; None where there is none."""
    gone = {
        name
        for name, value in zip(made.reads, made.arguments(), strict=True)
        if any(isinstance(x, xlab.Array) and x.is_deleted() for x in xlab.tree.leaves(value))
    }
    lines = [
        node.lineno + place.first - 1
        for node in ast.walk(ast.parse(place.source))
        if isinstance(node, ast.Name) and node.id in gone
    ]
    return Position(place.file, min(lines), min(lines), 0, 0, "") if lines else None


def run_by_jax(function: Any, arguments: Any) -> Any:
    """What the function of a cell written for JAX returns, traced, compiled and run by JAX."""
    leaves, given = xlab.tree.flatten(tuple(arguments))
    trees = []

    def cell(*xs: Any) -> list[Any]:
        flat, structure = xlab.tree.flatten(function(*xlab.tree.unflatten(given, xs)))
        trees.append(structure)
        return flat

    returned = JaxFunction(cell)(*leaves)
    return xlab.tree.unflatten(trees[-1], returned)


def _plain_only(given: Any) -> None:
    """Options that place or compile are xlab's; in a cell written for JAX they are written in JAX."""
    asked = [n for n in given.used if n not in ("show", "hide", "save", "quiet")]
    if asked:
        raise ValueError(
            f"this cell is written for JAX, which traces and compiles it: --{asked[0]} is for cells written for xlab. Place its arrays with "
            "jax.device_put, or make the cell a function, jit it with JAX's own options, and use %xjit f(x)"
        )


# By the ids of the functions, which their jits keep alive.
_jits: caches.Latest[tuple, Any] = caches.Latest(256)


def _jitted(cell: Cell, shardings: Any, donated: tuple[str, ...]) -> Any:
    """The jitted function of a cell: the same object for equal cells, so that running a cell again compiles nothing."""
    function = cell.function()
    return _jits.get_or_make(
        (id(function), shardings, donated),
        lambda: xlab.jit(function, out_shardings=shardings, donate_argnames=donated or None),
    )


def _check_names(cell: Cell, option: str, given: Any) -> None:
    if (name := inputs.of_none(given, cell.reads)) is not None:
        raise NameError(
            f"{option} names {name!r}, which is no input of the cell; its inputs are "
            f"{', '.join(cell.reads) or 'none'} (names it reads that hold arrays)"
        )


def _check_runs(given: Any) -> None:
    again = "repeat" if given.repeat > 0 else "profile" if given.profile else ""
    if given.donate and again:
        raise ValueError(
            f"--{again} runs the cell again on the same inputs, which --donate has given away: use one of them"
        )


def _repeat(jitted: Any, arguments: list[Any], given: Any) -> None:
    if given.repeat > 0:
        observe.time(jitted, *arguments, repeat=given.repeat)


def _target(run: Recording, given: Any, *call: Any) -> None:
    """The same program for another machine."""
    if given.target:
        run.doing = f"compiling for {given.target}"
        with observe.paused():
            made = observe.scheduled(given.target, *call)
        index = max(
            (n for n, s in enumerate(run.session.subjects) if s.name == made.function), default=0
        )
        run.session.targets = (
            made.replace(
                program=index, transfers=tuple(t.replace(program=index) for t in made.transfers)
            ),
        )


def _extras(run: Recording, given: Any, jitted: Any, arguments: list[Any]) -> None:
    """What costs a second compile or a slower run, only when asked for."""
    if given.profile:
        run.session.profile = observe.profile(jitted, *arguments)
    _target(run, given, jitted, *arguments)
    if given.passes:
        run.session.passes = observe.passes(jitted, *arguments, all=True)
