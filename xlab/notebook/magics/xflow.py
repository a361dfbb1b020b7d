"""`%xflow f(x)`: the collectives of a program: who sends how much to whom, and why."""

from __future__ import annotations

from types import SimpleNamespace

from IPython.core.magic import Magics, line_magic, magics_class

from xlab import observe
from xlab.notebook import formatters
from xlab.notebook.experiments import handlers
from xlab.notebook.magics.arguments import Option, takes
from xlab.notebook.magics.base import STATIC, call_of, jitted
from xlab.notebook.views.whatif import SECONDS
from xlab.observe.programs.analysis_only import suppress_warnings
from xlab.observe.programs.stages import program_stages
from xlab.observe.records import Notice, Report
from xlab.observe.sharding.program_layouts import argument_layouts


@magics_class
class Xflow(Magics):
    """`%xflow`."""

    @line_magic
    @takes(
        "f(x, y)",
        Option(
            "target",
            "compile for a TPU that need not be there (needs the extra tpu)",
            "tpu:v5e:2x4",
        ),
        STATIC,
        Option(
            "better",
            "look for a placement that is better than the present one, for a machine that need not be there",
            "tpu:v5e:4x4",
        ),
    )
    def xflow(self, given: SimpleNamespace) -> None:
        """Compiles a call without running it and shows its collectives, yours and the partitioner's."""
        fun, args, kwargs, text = call_of(self.shell, given.rest, "xflow")
        if given.target:
            formatters.show(
                observe.target(given.target, fun, *args, **kwargs).replace(
                    title=f"{text} on {given.target}"
                )
            )
            return
        fun = jitted(self.shell, fun, given.static, args, kwargs)
        if given.better:
            tried = observe.Experiment(fun, *args, **kwargs)
            formatters.show(tried.search(machine=given.better, seconds=SECONDS))
            return
        with suppress_warnings():  # what the compiler warns of stands in the reasons
            transfers = observe.transfers(fun, *args, **kwargs)
        if not transfers:
            by = program_stages(fun, args, kwargs).made_by
            print(f"{text}: no collectives; every device works alone" + f" ({by})" * bool(by))
            return
        program = observe.program(fun, *args, levels=True, **kwargs)
        stages = program_stages(fun, args, kwargs)
        formatters.show(
            Report(
                text,
                (program,),
                argument_layouts(stages),
                transfers,
                mesh=transfers[0].mesh,
                notices=tuple(Notice("info", s, "program", program=0) for s in stages.unknown),
                opens="collectives",
                counted=True,
            ),
            handlers=handlers([stages]),
        )
