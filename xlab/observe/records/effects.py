"""Effects that were started and are waited for: prints and callbacks of programs that may still run."""

from __future__ import annotations

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.text import Options, add_form
from xlab.observe.records.units import plural, table


@record_type
class PendingEffect(Record):
    """What one thread waits for. `kind` is the effect of ordered ones, empty for those without an order.

    `done` says whether it has happened; None where only waiting tells.
    """

    kind: str
    devices: tuple[int, ...] = ()
    thread: str = ""
    done: bool | None = None

    @property
    def state(self) -> str:
        """One word: done, pending, or started."""
        return "started" if self.done is None else "done" if self.done else "pending"

    @property
    def text(self) -> str:
        """Which effect, and whether it is in order."""
        return f"{self.kind}, in order" if self.kind else "without an order"


@record_type
class PendingEffects(Record):
    """Tokens that `effects_barrier` and the end of the process wait for, thread by thread."""

    effects: tuple[PendingEffect, ...] = ()

    @property
    def sentence(self) -> str:
        """How many there are, and how many have not happened."""
        if not self.effects:
            return "no effect is waited for"
        pending = sum(e.done is False for e in self.effects)
        return (
            plural(len(self.effects), "token")
            + (f", {pending} pending" if pending else "")
            + "; xlab.effects_barrier() waits for those of its thread"
        )


def _effects(pending: PendingEffects, o: Options) -> str:
    rows = [
        (e.text, "devices " + ", ".join(map(str, e.devices)), e.thread, e.state)
        for e in pending.effects
    ]
    return pending.sentence + ("\n" + table(rows) if rows else "")


add_form(PendingEffects, _effects)
