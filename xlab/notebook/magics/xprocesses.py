"""`%xprocesses`: starts processes that run the notebook together, and tells where each is."""

from __future__ import annotations

from types import SimpleNamespace

from IPython.core.magic import Magics, line_magic, magics_class

from xlab.notebook import processes
from xlab.notebook.magics.arguments import Option, number_of_runs, takes

_WORDS = ("restart", "stop", "interrupt")


@magics_class
class Xprocesses(Magics):
    """`%xprocesses`."""

    @line_magic
    @takes(
        "2",
        Option("devices", "CPU devices of each process", "4", number_of_runs(1), default=1),
        Option(
            "engines", "who starts them: local, mpi, ssh, slurm, pbs, …", "slurm", default="local"
        ),
        Option("hosts", "with --engines ssh: the machines", "n1,n2", default=""),
        Option("timeout", "seconds that a cell may take", "600", float),
        Option(
            "gate",
            "whether they agree on each program that spans them",
            "off",
            choices=("launch", "compile", "off"),
            noun="gate",
            default="launch",
        ),
        Option(
            "gate-timeout",
            "seconds that the others wait for one that is late",
            "60",
            float,
            default=60.0,
        ),
        Option(
            "start-timeout",
            "seconds to wait for them, a batch system's queue included",
            "3600",
            float,
            default=60.0,
        ),
        python=False,
    )
    def xprocesses(self, given: SimpleNamespace) -> None:
        """Starts so many processes; with nothing tells where each is; `restart`, `stop` and `interrupt` do that.

        From then on every magic runs in all processes, and `%%xall` runs plain Python there; `--here` behind a magic is for this kernel. Names
        live in the processes: `xlab.processes.current()["x"]` fetches one.
        """
        word, group = given.rest.strip(), processes.current()
        if word.isdecimal() and int(word) > 0:
            print(
                processes.start(
                    int(word),
                    devices=given.devices,
                    engines=given.engines,
                    hosts=tuple(filter(None, given.hosts.split(","))),
                    timeout=given.timeout,
                    gate=given.gate,
                    gate_timeout=given.gate_timeout,
                    start_timeout=given.start_timeout,
                )
            )
        elif word and word not in _WORDS:
            raise ValueError(
                f"%xprocesses takes a number of processes, or one of {', '.join(_WORDS)}; given {word!r}"
            )
        elif group is None:
            if word:
                raise ValueError(f"there are no processes to {word}: %xprocesses 2 starts two")
            print("no processes: %xprocesses 2 starts two")
        elif word == "restart":
            print(group.restart())
        elif word:
            getattr(group, word)()
        else:
            print(group)
