"""The persistent cache: compiled programs in a folder, found again by other processes.

On with `config.compilation_cache_dir`. An entry is one file, `<program>-<key>-cache`: a line of JSON with the parts of its key, then the
packed executable. The parts are there so that a miss can say which of them no stored program of this name shares. Modules that only a
cache needs are imported where they are used: together they are sixty, and most sessions have no cache.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from xlab import events
from xlab.backend import client as _client
from xlab.backend import compiling as _compiling
from xlab.config import config
from xlab.interpreters.mlir.module import strip_locations

HEADS = 50
"""How many stored programs of one name a miss is compared with, the latest first."""

logger = logging.getLogger("xlab")

_EVENT = "compilation_cache/"
_used: bool | None = None       # whether compiles of this process use the cache; None before the first

_MAGIC = b"xlab compiled program 1\n"
_MAIN = re.compile(r"func\.func public @main\((.*)$", re.MULTILINE)


class Outcome(NamedTuple):
    """What the cache said: `hit`, `miss`, or nothing where it is off or not for this program; on a miss why, part by part."""

    found: str = ""
    reason: str = ""
    differences: tuple[tuple[str, str, str, str], ...] = ()


NOTHING = Outcome()


def compiled(name: str, text: str, devices: Sequence[Any], make: Callable[[], Any], *, options: Mapping[str, Any], propagation: str,
             storable: bool) -> tuple[Any, Outcome]:
    """The executable of a module: from the folder, or made and stored there when it took long enough.

    Args:
        make: compiles it.
        options, propagation: what besides the text and the devices decides the outcome.
        storable: whether it means the same in another process; callbacks into Python do not.
    """
    folder = config.compilation_cache_dir
    _note_use(config.enable_compilation_cache)
    if not folder or not config.enable_compilation_cache or not storable:
        return make(), NOTHING
    import json

    parts = key_parts(text, devices, options, propagation)
    label = re.sub(r"[^\w.-]", "_", name)[:60]
    path = Path(folder) / f"{label}-{_digest(json.dumps(parts))}-cache"
    start = events.clock()
    found = _read(path, name, devices)
    if found is not None:
        native, compiling = found
        reading = (events.clock() - start) / 1e9
        logger.log(logging.WARNING if config.log_compiles else logging.DEBUG, "Persistent compilation cache hit for '%s' with key %r",
                   name, path.name.removesuffix("-cache"))
        events.emit("cache_hit", name=name, cache="disk")
        events.note(_EVENT + "cache_hits")
        events.note(_EVENT + "compile_time_saved_sec", compiling - reading)
        events.note(_EVENT + "cache_retrieval_time_sec", reading)
        return native, Outcome("hit")
    reason, differences = why(Path(folder), label, name, parts)
    events.emit("cache_miss", name=name, cache="disk", reason=reason)
    start = events.clock()
    native = make()
    seconds = (events.clock() - start) / 1e9
    if seconds >= config.persistent_cache_min_compile_time_secs and _client.process_index() == 0:
        _write(path, parts, native, seconds, name)
    return native, Outcome("miss", reason, differences)


def _note_use(on: bool) -> None:
    """Tells who monitors that a compile may use the cache, and where that changed also whether this process does."""
    global _used
    if on != _used:
        _used = on
        events.note(_EVENT + ("tasks_using_cache" if on else "task_disabled_cache"))
    if on:
        events.note(_EVENT + "compile_requests_use_cache")


def key_parts(text: str, devices: Sequence[Any], options: Mapping[str, Any], propagation: str) -> dict[str, str]:
    """The parts of a key: where lines of source do not count."""
    plain = strip_locations(text)
    types = _MAIN.search(plain)
    return {
        "argument types": ", ".join(re.findall(r"tensor<([^>]*)>", types[1].split("->")[0])) if types else "",
        "program": _digest(plain)[:16],
        "devices": f"{devices[0].platform} {', '.join(str(d.id) for d in devices)}",
        "compiler options": ", ".join(f"{k}={v}" for k, v in sorted(options.items())),
        "propagation": propagation,
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
        "jaxlib": _jaxlib(),
        "platform": _client.platform_version(),
    }


def _digest(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def _jaxlib() -> str:
    from importlib import metadata

    return metadata.version("jaxlib")


def why(folder: Path, label: str, name: str, parts: Mapping[str, str]) -> tuple[str, tuple]:
    """Why nothing stored fits: the parts in which the nearest stored program of this name differs."""
    stored = list(_heads(folder, label))
    if not stored:
        return f"no program called `{name}` is in the disk cache", ()
    nearest = max(stored, key=lambda head: sum(head.get(part) == now for part, now in parts.items()))
    changes = tuple(("disk cache", part, nearest.get(part, ""), now) for part, now in parts.items() if nearest.get(part) != now)
    told = [c for c in changes if c[1] != "program"] or list(changes)
    said = [f"the text of the program is another ({was} before)" if part == "program" else f"{part} went from {was or 'none'} to {now or 'none'}"
            for _, part, was, now in told]
    return f"the disk cache has `{name}` under another key: " + ", ".join(said), changes


def _heads(folder: Path, label: str) -> Iterator[dict[str, str]]:
    import json

    paths = sorted(folder.glob(f"{label}-*-cache"), key=lambda p: -p.stat().st_mtime)
    for path in paths[:HEADS]:
        with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:
            if file.readline() == _MAGIC:
                yield json.loads(file.readline())["parts"]


def _read(path: Path, name: str, devices: Sequence[Any]) -> tuple[Any, float] | None:
    """The stored executable, and how many seconds it took to compile."""
    import json
    import zlib

    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        return _trouble(f"error reading persistent compilation cache entry for '{name}': {error}", error)
    try:
        if not data.startswith(_MAGIC):
            raise ValueError("the file is no entry of this cache")
        end = data.index(b"\n", len(_MAGIC))
        found = _compiling.deserialize(zlib.decompress(data[end + 1:]), devices), float(json.loads(data[len(_MAGIC):end])["seconds"])
        with contextlib.suppress(OSError):
            os.utime(path)                  # the one used longest ago goes first
        return found
    except Exception as error:
        return _trouble(f"error reading persistent compilation cache entry for '{name}': {type(error).__name__}: {error}", error)


def _write(path: Path, parts: dict[str, str], native: Any, seconds: float, name: str) -> None:
    import json
    import tempfile
    import zlib

    try:
        data = _compiling.serialize(native)
        if len(data) < config.persistent_cache_min_entry_size_bytes:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        head = json.dumps({"parts": parts, "seconds": seconds}).encode()
        made, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        with os.fdopen(made, "wb") as file:     # other processes see the whole entry or none
            file.write(_MAGIC + head + b"\n" + zlib.compress(data, 1))
        os.replace(temporary, path)
        events.note(_EVENT + "cache_misses")
        _evict(path.parent)
    except Exception as error:
        _trouble(f"error writing persistent compilation cache entry for '{name}': {type(error).__name__}: {error}", error)


def _evict(folder: Path) -> None:
    most = config.compilation_cache_max_size
    if most < 0:
        return
    found = sorted(((p.stat().st_mtime, p.stat().st_size, p) for p in folder.glob("*-cache")), key=lambda f: f[0])
    total = sum(size for _, size, _ in found)
    for _, size, path in found[:-1]:
        if total <= most:
            break
        path.unlink(missing_ok=True)
        total -= size


def _trouble(message: str, error: Exception) -> None:
    if config.raise_persistent_cache_errors:
        raise error
    warnings.warn(message, stacklevel=2)
