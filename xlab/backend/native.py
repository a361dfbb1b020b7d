"""The extension modules, imported once and in the order they need; sets the native state that is still unset.

Everything else in this room takes `_jax` and `_hlo` from here. Importing this module creates no client.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from xlab.backend import import_guard, version

version.check()
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
import_guard.install()

# Before `_jax`: some of its caches use a class of this module without importing it, and crash.
from jaxlib import weakref_lru_cache  # noqa: E402, F401, I001
from jaxlib import _hlo, _jax  # noqa: E402

from xlab import errors  # noqa: E402
from xlab.config import config  # noqa: E402

__all__ = ["UNSET", "X64", "_hlo", "_jax", "neighbor_present", "owns_state"]

UNSET = _jax.config.unset
XlaRuntimeError = _jax.JaxRuntimeError
# `errors` is standard library only, so the native class is registered there by the room that may name it.
errors.JaxRuntimeError = errors.XlabRuntimeError = XlaRuntimeError  # type: ignore[attr-defined]


def neighbor_present() -> bool:
    """Whether the user has imported JAX into this process; the name may also be another of xlab's own (`xlab.as_jax`)."""
    return "jax" in sys.modules and sys.modules["jax"].__name__ == "jax"


if not neighbor_present() and str(
    getattr(vars(_jax.ArrayImpl).get("__len__"), "__module__", "")
).startswith("jax."):
    raise ImportError(
        "JAX was imported into this process and taken out of sys.modules again: its classes live on in jaxlib and in the libraries that "
        "hold them, and xlab's would be mixed with them. Restart the process (the kernel); to have xlab in the place of JAX, "
        "`import xlab.as_jax` first.",
        name="xlab",
    )

_state_is_ours = not neighbor_present()


def owns_state() -> bool:
    """Whether the native x64 and disable_jit switches follow our options (and not JAX's)."""
    return _state_is_ours


def give_up_state() -> None:
    """Called once JAX has installed its own switches."""
    global _state_is_ours
    _state_is_ours = False


# Two mirrors of the trace context take part in the native signature: the shared part and this thread's own.
# With one, a global change would be invisible in threads that have values of their own.
_shared = _jax.config.Config("xlab_context", (), include_in_jit_key=True)
_own = _jax.config.Config("xlab_local_context", (), include_in_jit_key=True)
X64 = _jax.config.Config("xlab_enable_x64", False)
_DISABLE_JIT = _jax.config.Config("xlab_disable_jit", False)
POST_HOOK = _jax.config.Config("xlab_post_hook", None)
WATCHED = _jax.config.Config("xlab_watched", False, include_in_jit_key=True)
# Whether this thread is inside a host callback of a program of several devices: then Python starts every program, and refuses some.
CALLED_BACK = _jax.config.Config("xlab_called_back", False, include_in_jit_key=True)

if _state_is_ours:
    _jax.jax_jit.set_enable_x64_state(X64)
    _jax.jax_jit.set_disable_jit_state(_DISABLE_JIT)
    _jax.jax_jit.set_post_hook_state(POST_HOOK)


# Whether this thread is tracing. Part of the native signature, so that a call on concrete values made while something
# is traced comes to Python and becomes part of the program instead of running at once.
_tracing = _jax.config.Config("xlab_tracing", False, include_in_jit_key=True)
set_tracing = _tracing.set_local


def is_tracing() -> bool:
    """Whether this thread is tracing a function."""
    return bool(_tracing.value)


_mirrored = config.global_version()


def _mirror() -> None:
    global _mirrored
    version = config.global_version()
    if version != _mirrored:
        _mirrored = version
        _shared.set_global(config.global_context())
        X64.set_global(type(config).enable_x64)
    local = config.local_context()
    if local:
        _own.set_local(local)
        X64.set_local(config.enable_x64)
    else:
        _own.set_local(UNSET)
        X64.set_local(UNSET)


_shared.set_global(config.global_context())
X64.set_global(type(config).enable_x64)
config.subscribe(_mirror)


def ifrt_proxy() -> Any:
    """jaxlib's module for clients of devices on another machine."""
    from jaxlib import _ifrt_proxy

    return _ifrt_proxy
