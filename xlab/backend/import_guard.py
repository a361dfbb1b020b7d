"""Keeps native code from importing JAX, and notices when the user imports it.

Some native calls end in `import jax`, which would load JAX as a side effect of reading a shard. A finder at
the front of `sys.meta_path` refuses such an import unless Python code really asked for it. When the user imports
JAX after us, the import goes on, and registered functions (`class_sharing.py`) are called when it is complete.
"""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_IMPORT_OPS = frozenset((dis.opmap["IMPORT_NAME"], dis.opmap["IMPORT_FROM"]))
# A call that imports on behalf of Python code: the frame names one of these.
_IMPORTING_CALLS = frozenset(
    ("__import__", "import_module", "find_spec", "load", "loads", "Unpickler", "run_module",
     "run_path", "resolve_name", "find_class")
)  # fmt: skip

_after_neighbor: list[Callable[[], Any]] = []
_requested = "jax" in sys.modules

beginning = threading.RLock()  # reentrant: a finalizer may run while its thread holds it
"""Held while an import of JAX begins, so that who holds it knows that none does."""


def requested() -> bool:
    """Whether Python code ever asked for JAX."""
    return _requested


def after_neighbor(fn: Callable[[], Any]) -> None:
    """Calls `fn()` each time JAX has finished importing."""
    _after_neighbor.append(fn)


def install() -> None:
    """Puts the finder first; does nothing when it is already there."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def requested_by_python(frame: FrameType | None) -> bool:
    """Whether the import was requested by Python code: the nearest outer frame executes an import."""
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    if frame is None:
        return True
    if frame.f_globals.get("__name__", "").partition(".")[0] == "importlib":
        return True
    code = frame.f_code
    lasti = frame.f_lasti
    if lasti >= 0 and code.co_code[lasti] in _IMPORT_OPS:
        return True
    return not _IMPORTING_CALLS.isdisjoint(code.co_names)


class _Finder:
    """Refuses native imports of JAX; wraps the real loader to notice when it is done."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name[:3] != "jax" or (name != "jax" and name[:4] != "jax."):
            return None
        if "jax" in sys.modules:
            return None
        if not requested_by_python(sys._getframe(1)):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        global _requested
        with beginning:
            _requested = True
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader:
    """Runs the real loader, then calls the registered functions."""

    def __init__(self, loader: Any):
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        for fn in tuple(_after_neighbor):
            fn()
