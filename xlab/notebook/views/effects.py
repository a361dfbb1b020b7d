"""Effects that are waited for: a row per token, with its devices."""

from __future__ import annotations

from xlab.notebook.views.base import View
from xlab.notebook.views.draw import Node, h, panel, table
from xlab.observe.records.effects import PendingEffect, PendingEffects


def _row(e: PendingEffect) -> Node:
    sign = {"done": "✓ ", "pending": "… "}.get(e.state, "▷ ")
    return h(
        "tr",
        None,
        h("td", None, e.text),
        h("td", None, h("code", None, ", ".join(map(str, e.devices)))),
        h("td", None, e.thread),
        h("td", {"class": "xl-dim" if e.done else None}, h("b", None, sign), e.state),
    )


def effects_panel(pending: PendingEffects) -> Node:
    """The sentence, and a table if there is anything to wait for."""
    return panel(
        "effects",
        "Effects",
        h("h3", None, "Pending effects", h("small", None, f" {pending.sentence}")),
        table(
            (("effect", ""), ("devices", ""), ("thread", ""), ("", "")),
            list(map(_row, pending.effects)),
        )
        if pending.effects
        else None,
    )


class EffectsView(View):
    """What is waited for.

    >>> EffectsView().title(PendingEffects())
    'pending effects'
    """

    name = "effects"
    record_type = PendingEffects
    height = 180
    scripted = False

    def title(self, record: PendingEffects) -> str:
        """The same for all."""
        return "pending effects"

    def tree(self, record: PendingEffects) -> Node:
        """A sentence and a table."""
        return h("article", {"class": "xl xl-report"}, effects_panel(record))
