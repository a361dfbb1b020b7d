"""The import hook: `import jax`, `import jax.numpy`, `from jax.sharding import Mesh` give xlab's own modules.

A module has one identity: `sys.modules["jax.numpy"]` is `xlab.numpy`, so that a class is the same class under both names.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from xlab.backend.import_guard import requested_by_python
from xlab.backend.native import neighbor_present, owns_state
from xlab.jax_alias import missing, private

__all__ = ["is_on", "off", "on"]

# What programs use as `jax.NAME` without importing it.
_WITH_JAX = (
    "core",
    "dtypes",
    "experimental",
    "interpreters",
    "interpreters.xla",
    "lax",
    "nn",
    "numpy",
    "random",
    "sharding",
    "tree_util",
)


def on() -> None:
    """Makes every later `import jax...` an import of xlab; does nothing where it is on.

    Raises:
        ImportError: JAX itself was imported already, so that what holds it would run on the other runtime.

    Example: `import xlab.as_jax` calls it; then `import jax, flax` gives flax on xlab.
    """
    if is_on():
        return
    if neighbor_present() or not owns_state():  # or it was, and was taken out of `sys.modules`
        raise ImportError(
            "JAX was imported before xlab could stand in for it, by "
            f"{missing.users_of_jax() or 'this program'}: what holds it already would run on the other runtime. "
            "Restart, and turn xlab on first: %xjax in the first cell, `import xlab.as_jax` as the first import, or "
            "`xlab run script.py`.",
            name="jax",
        )
    private.add_attributes()
    private.add_log_filters()
    sys.meta_path.insert(0, _Finder())


def off() -> None:
    """Takes the hook away again, where no `import jax` has gone through it yet.

    Raises:
        RuntimeError: modules hold xlab under JAX's name; only a new process undoes that.
    """
    if not is_on():
        return
    if _Loader.used or "jax" in sys.modules:
        users = missing.users_of_jax()
        raise RuntimeError(
            "xlab stands in for JAX in modules that are imported already"
            + (f" ({users})" if users else "")
            + ": they would keep it, and others would get JAX. Restart the process (the kernel) to go back to JAX."
        )
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]


def is_on() -> bool:
    """Whether `import jax` gives xlab."""
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


class _Finder:
    """Answers for `jax` and everything below it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.startswith("xlab."):
            return _explained(name, path)
        if name != "jax" and not name.startswith("jax."):
            return None
        if not requested_by_python(
            sys._getframe(1)
        ):  # native code, which finds nothing without JAX
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return ModuleSpec(name, _Loader(), is_package=True)


class _Loader:
    """Puts the module of ours under JAX's name."""

    used = False  # whether a module of ours has gone out under one of JAX's names

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        found = private.module(spec.name) or _ours("xlab" + spec.name[len("jax") :])
        if found is None:
            raise missing.module(spec.name)
        if private.is_parent(spec.name) and not hasattr(found, "__path__"):
            found.__path__ = []  # so that what the table has inside of it is looked for
        missing.explain(found, spec.name)
        # The import system writes its own spec into what it is given: a module keeps the one it has.
        self.found, self.spec = found, found.__spec__
        return found

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec
        _Loader.used = True
        if module is sys.modules.get("jax"):
            for name in _WITH_JAX:
                importlib.import_module(f"jax.{name}")


def _explained(name: str, path: Any) -> ModuleSpec | None:
    """How a module of ours is imported that programs will reach as an attribute of one that has JAX's name."""
    stands_for = missing.stands_for(name)
    spec = PathFinder.find_spec(name, path) if stands_for else None
    if spec is not None and spec.loader is not None:
        spec.loader = _Explaining(spec.loader, stands_for)
    return spec


class _Explaining:
    """Loads as another loader does, which the module then has, and makes the module say what it lacks."""

    def __init__(self, loader: Any, name: str):
        self.loader, self.name = loader, name

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        module.__loader__ = self.loader
        self.loader.exec_module(module)
        missing.explain(module, self.name)


def _ours(name: str) -> ModuleType | None:
    if name in sys.modules or private.is_here(name):
        return importlib.import_module(name)
    return None
