"""The options of the runtime: a table, with what was changed first."""

from __future__ import annotations

from xlab.notebook.views.base import View
from xlab.notebook.views.draw import Node, h, panel, table
from xlab.observe.records.settings import Setting, Settings
from xlab.observe.records.units import plural

_FROM = {
    "local": "a with block",
    "global": "config.update",
    "env": "the environment",
    "default": "default",
}


def _row(s: Setting) -> Node:
    changed = s.source != "default"
    name = h("b", None, s.name) if changed else s.name
    was = h("small", None, f" not {s.default}") if changed and s.value != s.default else None
    return h(
        "tr",
        {"class": "xl-this" if changed else None},
        h("td", None, h("code", None, name)),
        h("td", None, h("code", None, s.value), was),
        h("td", {"class": None if changed else "xl-dim"}, _FROM.get(s.source, s.source)),
        h("td", {"class": "xl-dim"}, f"no effect: {s.idle}" if s.idle else s.about),
    )


def settings_panel(settings: Settings) -> Node:
    """What was changed, then everything else."""
    changed = settings.changed
    rest = [s for s in settings.rows if s.source == "default"]
    said = (
        f" {len(changed)} of {plural(len(settings.rows) + settings.more, 'option')} changed"
        if settings.rows
        else " none by that name"
    )
    return panel(
        "settings",
        "Settings",
        h("h3", None, "Settings", h("small", None, said)),
        h(
            "div",
            {"class": "xl-scroll"},
            table(
                (("option", ""), ("value", ""), ("from", ""), ("", "")),
                [*map(_row, changed), *map(_row, rest)],
            ),
        )
        if settings.rows
        else None,
        h("p", {"class": "xl-dim"}, f"{settings.more} more: %xsettings") if settings.more else None,
    )


class SettingsView(View):
    """Options, their values, and where these are from.

    >>> SettingsView().title(Settings())
    'settings'
    """

    name = "settings"
    record_type = Settings
    height = 360
    scripted = False

    def title(self, record: Settings) -> str:
        """The same for all."""
        return "settings"

    def tree(self, record: Settings) -> Node:
        """A table."""
        return h("article", {"class": "xl xl-report"}, settings_panel(record))
