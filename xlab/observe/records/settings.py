"""Settings of the runtime: each option with its value and where it is from."""

from __future__ import annotations

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.text import Options, add_form
from xlab.observe.records.units import table


@record_type
class Setting(Record):
    """One option. `source` is `default`, `env`, `global` or `local`; `idle` says why it has no effect, empty where it has one."""

    name: str
    value: str
    source: str = "default"
    default: str = ""
    about: str = ""
    idle: str = ""


@record_type
class Settings(Record):
    """Options of the runtime, as the thread that asked has them, by name. `more` were not asked for."""

    rows: tuple[Setting, ...] = ()
    more: int = 0

    @property
    def changed(self) -> tuple[Setting, ...]:
        """Those that do not have their default."""
        return tuple(s for s in self.rows if s.source != "default")


def _settings(settings: Settings, o: Options) -> str:
    rows = [(s.name, s.value, s.source) for s in settings.rows]
    more = [f"  … {settings.more} more: xlab.observe.settings()"] if settings.more else []
    return "\n".join([table(rows), *more] if rows else more or ["no such setting"])


add_form(Settings, _settings)
