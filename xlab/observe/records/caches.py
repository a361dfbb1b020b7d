"""What the caches of compiled programs did for this process."""

from __future__ import annotations

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.text import Options, add_form
from xlab.observe.records.units import plural, size_text, table, time_text


@record_type
class Caches(Record):
    """Caches of this process.

    `eager_*` count calls of single primitives that found their one-operation program, or made it. `disk_*` are of the persistent
    cache; `saved_us` is time that compiling would have taken and reading did not. `folder` and `dumps`, the latest programs that were
    written to `dump_folder`, are names without a path: records are shared.
    """

    eager_hits: int = 0
    eager_misses: int = 0
    eager_programs: int = 0
    compiles: int = 0
    compile_us: float = 0.0
    disk: bool = False
    disk_hits: int = 0
    disk_misses: int = 0
    saved_us: float = 0.0
    reading_us: float = 0.0
    folder: str = ""
    stored: int = 0
    stored_bytes: int = 0
    dump_folder: str = ""
    dumps: tuple[str, ...] = ()


def misses(n: int) -> str:
    """`1 miss`, `2 misses`."""
    return f"{n:,} miss{'es' * (n != 1)}"


def caches_rows(c: Caches, times: bool = True) -> list[tuple[str, str, str]]:
    """What each cache did: its name, in numbers, and a remark."""
    eager = c.eager_hits + c.eager_misses
    rows = [
        (
            "eager",
            f"{plural(c.eager_hits, 'hit')}, {misses(c.eager_misses)}",
            f"{c.eager_hits / eager:.0%} of calls found {plural(c.eager_programs, 'one-operation program')}"
            if eager
            else "no primitive was called outside of jit",
        ),
        (
            "memory",
            plural(c.compiles, "compile"),
            f"{time_text(c.compile_us)} in all; %xledger says why" if times and c.compiles else "",
        ),
    ]
    if not c.disk:
        return [
            *rows,
            ("disk", "off", "xlab.config.update('compilation_cache_dir', folder) turns it on"),
        ]
    saved = (
        f"{time_text(c.saved_us)} saved, {time_text(c.reading_us)} of reading; " if times else ""
    )
    return [
        *rows,
        (
            "disk",
            f"{plural(c.disk_hits, 'hit')}, {misses(c.disk_misses)}",
            f"{saved}{plural(c.stored, 'program')} in {c.folder}, {size_text(c.stored_bytes)}",
        ),
    ]


def _caches(c: Caches, o: Options) -> str:
    lines = [table(caches_rows(c, o.times))]
    if c.dumps:
        lines += [f"  written to {c.dump_folder}:", *(f"    {name}" for name in c.dumps)]
    return "\n".join(lines)


add_form(Caches, _caches)
