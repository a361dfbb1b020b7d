"""`transfers` and `assert_collectives`: the collectives of a program, with the names of the ways to divide work that they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xlab.interpreters import communication
from xlab.interpreters.communication_costs import Interconnect
from xlab.observe.overview.patterns import known_patterns
from xlab.observe.programs.stages import program_stages
from xlab.observe.records import Transfer
from xlab.observe.records.transfers import advice_word
from xlab.observe.sharding.transfers import TRIES, Transfers, transfers_of


def transfers(
    what: Any,
    *args: Any,
    link: str | Interconnect = "cpu",
    algorithm: str = "ring",
    compile: bool = True,
    program: int = 0,
    tries: int = TRIES,
    **kwargs: Any,
) -> tuple[Transfer, ...]:
    """The collectives of a program in the order they run.

    Args:
        what: a function with its arguments, a stage of `jit`, or a jaxpr.
        link: the interconnect to predict for, a name in `interpreters.communication_costs.LINKS` or an `Interconnect(name, alpha, beta)`.
        algorithm: one of `interpreters.schedules.ALGORITHMS`, such as `ring`, `bidirectional` or `doubling`; where it does not fit, a ring.
        compile: look into the compiled module; without it only what the user wrote is known.
        program: index to write into the records.
        tries: how many programs may be compiled to see which advice takes a collective away; the rest is given untried.

    Example:
        >>> import numpy as np
        >>> transfers(lambda x: x, np.ones(3, np.float32))
        ()
    """
    stages = program_stages(what, args, kwargs)
    found = transfers_of(stages, link, algorithm, compile, program, tries)
    known = known_patterns(found, stages)
    return Transfers(
        (t.replace(pattern=known.get(n, "")) for n, t in enumerate(found)), stages.made_by
    )


def assert_collectives(
    fun: Any, args: tuple = (), *, allow: Mapping[str, int] | None = None, **kwargs: Any
) -> None:
    """Raises unless a program's collectives are exactly those allowed, by kind and number in the compiled module.

    Args:
        fun, args: as for `transfers`; `args` is one tuple.
        allow: how many of each kind may occur; none by default.

    Raises:
        AssertionError: names each unexpected collective with its bytes, line and reason.

    Example:
        >>> import numpy as np
        >>> assert_collectives(lambda x: x, (np.ones(3, np.float32),), allow={})
    """
    left = dict(allow or {})
    unknown = set(left) - set(communication.collectives)
    if unknown:
        raise ValueError(
            f"allow names unknown kinds {sorted(unknown)}; there are {', '.join(sorted(communication.collectives))}"
        )
    unexpected = []
    for t in transfers(fun, *args, **kwargs):  # what is wrong with the first few is worth a compile
        if not t.instruction:
            continue
        if left.get(t.kind, 0) > 0:
            left[t.kind] -= 1
        else:
            unexpected.append(t)
    if not unexpected:
        return
    lines = []
    for t in unexpected:
        where = f" at {t.source.file}:{t.source.line}" if t.source else ""
        who = (
            f"written as {t.call}"
            if t.origin == "user"
            else f"added by the partitioner: {t.reason}"
        )
        lines.append(
            f"  {t.kind} over {', '.join(t.axes) or 'part of the mesh'}, {t.bytes_in:,} B → {t.bytes_out:,} B per device"
            f"{where}, {who}" + (f". {advice_word(t.tried)}{t.fix}" if t.fix else "")
        )
    raise AssertionError(
        f"{len(unexpected)} unexpected collective(s), allowed were {dict(allow or {}) or 'none'}:\n"
        + "\n".join(lines)
    )
