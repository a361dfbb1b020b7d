"""The persistent cache: compiled programs in a folder, shared between processes.

On with `config.compilation_cache_dir`. An entry is one file, `<program>-<key>-cache`: a line of JSON with the parts of its key, then the
packed executable. Native code would end the process over damaged bytes, so it gets them only if their digest fits. The key's parts
are stored so that a miss can say in which of them the stored programs of this name differ. Modules that only the cache needs
are imported where they are used: they are sixty, and most sessions have no cache.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from xlab import events
from xlab.backend import client as _client
from xlab.backend import compiling as _compiling
from xlab.compile import logs
from xlab.config import config
from xlab.interpreters.mlir.locations import strip_locations

HEADS = 50
"""How many stored programs of one name a miss is compared with, the latest first."""


class CacheCounts:
    """What the cache did for this process: programs found and not found, and seconds of compiling saved and of reading."""

    hits = misses = 0
    saved = reading = 0.0


use = CacheCounts()

_EVENT = "compilation_cache/"
_used: bool | None = None  # whether compiles of this process use the cache; None before the first

_MAGIC = b"xlab compiled program 2\n"
_HEAD = 1 << 20  # bytes of the line that says what an entry is: a longer one is none
_MAIN = r"(?m)func\.func public @main\((.*)$"


class CacheLookup(NamedTuple):
    """Result of a look-up: `hit`, `miss`, or empty if the cache does not apply; on a miss, the reasons."""

    found: str = ""
    reason: str = ""
    differences: tuple[tuple[str, str, str, str], ...] = ()


NOTHING = CacheLookup()


def compiled(
    name: str,
    text: str,
    devices: Sequence[Any],
    make: Callable[[], Any],
    *,
    options: Mapping[str, Any],
    propagation: str,
    storable: bool,
) -> tuple[Any, CacheLookup]:
    """The executable of a module: from the cache, or compiled, and stored if that took long enough.

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
    found = _read(path, name, devices, parts)
    if found is not None:
        native, compiling = found
        reading = (events.clock() - start) / 1e9
        logs.log(
            "Persistent compilation cache hit for '%s' with key %r",
            name,
            path.name.removesuffix("-cache"),
        )
        use.hits, use.reading = use.hits + 1, use.reading + reading
        use.saved += compiling - reading
        events.emit("cache_hit", name=name, cache="disk")
        events.note(_EVENT + "cache_hits")
        events.note(_EVENT + "compile_time_saved_sec", compiling - reading)
        events.note(_EVENT + "cache_retrieval_time_sec", reading)
        return native, CacheLookup("hit")
    use.misses += 1
    reason, differences = why(Path(folder), label, name, parts)
    (logs.warn if config.explain_cache_misses else logs.log)(
        "Persistent compilation cache miss for '%s' with key %r: %s",
        name,
        path.name.removesuffix("-cache"),
        reason,
    )
    events.emit("cache_miss", name=name, cache="disk", reason=reason)
    events.count("compile_after_disk_cache_miss")
    start = events.clock()
    native = make()
    seconds = (events.clock() - start) / 1e9
    if seconds >= config.persistent_cache_min_compile_time_secs and _client.process_index() == 0:
        _write(path, parts, native, seconds, name)
    return native, CacheLookup("miss", reason, differences)


def _note_use(on: bool) -> None:
    """Records monitoring events: a compile may use the cache, and whether this process uses it."""
    global _used
    if on != _used:
        _used = on
        events.note(_EVENT + ("tasks_using_cache" if on else "task_disabled_cache"))
    if on:
        events.note(_EVENT + "compile_requests_use_cache")


def key_parts(
    text: str, devices: Sequence[Any], options: Mapping[str, Any], propagation: str
) -> dict[str, str]:
    """The parts of a cache key; source lines are not part of it."""
    plain = strip_locations(text)
    types = re.search(_MAIN, plain)
    return {
        "argument types": ", ".join(re.findall(r"tensor<([^>]*)>", types[1].split("->")[0]))
        if types
        else "",
        "program": _digest(plain)[:16],
        "devices": f"{devices[0].platform} {', '.join(str(d.id) for d in devices)}",
        "compiler options": ", ".join(f"{k}={v}" for k, v in sorted(options.items())),
        "propagation": propagation,
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
        "jaxlib": _jaxlib(),
        "platform": _client.platform_version(),
        "processor": _client.processor(devices[0]),
    }


def _digest(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def _jaxlib() -> str:
    from importlib import metadata

    return metadata.version("jaxlib")


def why(folder: Path, label: str, name: str, parts: Mapping[str, str]) -> tuple[str, tuple]:
    """Why the look-up missed: the key parts in which the nearest stored program of this name differs."""
    stored = list(_read_headers(folder, label))
    if not stored:
        return f"no program called `{name}` is in the disk cache", ()
    nearest = max(
        stored, key=lambda head: sum(head.get(part) == now for part, now in parts.items())
    )
    changes = tuple(
        ("disk cache", part, nearest.get(part, ""), now)
        for part, now in parts.items()
        if nearest.get(part) != now
    )
    told = [c for c in changes if c[1] != "program"] or list(changes)
    said = [
        f"the text of the program is another ({was} before)"
        if part == "program"
        else f"{part} went from {was or 'none'} to {now or 'none'}"
        for _, part, was, now in told
    ]
    return f"the disk cache has `{name}` under another key: " + ", ".join(said), changes


def _read_headers(folder: Path, label: str) -> Iterator[dict[str, str]]:
    for path in sorted(folder.glob(f"{label}-*-cache"), key=_age)[:HEADS]:
        with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:
            yield _head(file)["parts"]


def _age(path: Path) -> float:
    """Larger for files used longer ago; infinite for a file that no longer exists."""
    try:
        return -path.stat().st_mtime
    except OSError:
        return float("inf")


def _head(file: IO[bytes]) -> dict[str, Any]:
    """The header of an entry, up to the packed executable; raises ValueError if the file is no entry."""
    import json

    line = file.readline(_HEAD) if file.read(len(_MAGIC)) == _MAGIC else b""
    try:
        head = json.loads(line)
    except (ValueError, RecursionError):
        head = None
    wanted = {"parts": dict, "seconds": (int, float), "bytes": int, "digest": str}
    if (
        not isinstance(head, dict)
        or not all(isinstance(head.get(k), t) for k, t in wanted.items())
        or head["bytes"] <= 0
        or not all(isinstance(part, str) for part in head["parts"].values())
    ):
        raise ValueError("the file is no entry of this cache")
    return head


def _read(
    path: Path, name: str, devices: Sequence[Any], parts: Mapping[str, str]
) -> tuple[Any, float] | None:
    """The stored executable, and how many seconds it took to compile."""
    import hashlib
    import zlib

    try:
        with open(path, "rb") as file:
            head = _head(file)
            if head["parts"] != parts:
                raise ValueError("the file is the entry of another program")
            packed = file.read()
        if hashlib.sha256(packed).hexdigest() != head["digest"]:
            raise ValueError("the file is damaged: it is not what was stored")
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(packed, head["bytes"])
        if len(data) != head["bytes"] or unpacking.unconsumed_tail:
            raise ValueError("the file is damaged: it has not as many bytes as it says")
        found = _compiling.deserialize(data, devices), float(head["seconds"])
        with contextlib.suppress(OSError):
            os.utime(path)  # the one used longest ago goes first
        return found
    except FileNotFoundError:
        return None
    except Exception as error:
        return _trouble(
            f"error reading persistent compilation cache entry for '{name}': {type(error).__name__}: {error}",
            error,
        )


def _write(path: Path, parts: dict[str, str], native: Any, seconds: float, name: str) -> None:
    import hashlib
    import json
    import tempfile
    import zlib

    try:
        data = _compiling.serialize(native)
        if len(data) < config.persistent_cache_min_entry_size_bytes:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        packed = zlib.compress(data, 1)
        head = json.dumps(
            {
                "parts": parts,
                "seconds": seconds,
                "bytes": len(data),
                "digest": hashlib.sha256(packed).hexdigest(),
            }
        ).encode()
        made, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        with os.fdopen(made, "wb") as file:  # other processes see the whole entry or none
            file.write(_MAGIC + head + b"\n" + packed)
        os.replace(temporary, path)
        events.note(_EVENT + "cache_misses")
        _evict(path.parent)
    except Exception as error:
        _trouble(
            f"error writing persistent compilation cache entry for '{name}': {type(error).__name__}: {error}",
            error,
        )


def _evict(folder: Path) -> None:
    most = config.compilation_cache_max_size
    if most < 0:
        return
    found = []
    for path in folder.glob("*-cache"):
        with contextlib.suppress(OSError):  # another process may have taken it away
            found.append((path.stat().st_mtime, path.stat().st_size, path))
    found.sort(key=lambda f: f[0])
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
