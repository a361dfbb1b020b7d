"""The native call path: after the first call with a signature, no Python runs until the result is returned.

`native_jit` wraps a `cache_miss` function. It is called with the user's arguments whenever native code does not
know their signature, and returns the result and, if later calls may skip it, a `FastPath`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlab.backend import caches, native
from xlab.backend.native import _jax
from xlab.backend.pytree import dispatch_registry
from xlab.config import config

PjitFunction = _jax.PjitFunction


class FastPath(NamedTuple):
    """What native code needs to run a known signature by itself.

    Shardings are native ones, one per flat argument or result, as are the kept bits and layouts (None for the
    default layout). What is flat, and the structure of the result, are in terms of `dispatch_registry`.
    """

    xla_executable: Any
    out_pytree_def: Any
    in_shardings: Sequence[Any]
    out_shardings: Sequence[Any]
    out_avals: Sequence[Any]
    out_committed: Sequence[bool]
    kept_var_bitvec: Sequence[bool]
    in_device_local_layouts: Sequence[Any]
    const_args: Sequence[Any] = ()


_cache = _jax.PjitFunctionCache(capacity=8192)


def native_jit(name: str, fun: Callable, cache_miss: Callable[..., tuple[Any, FastPath | None]],
               static_argnums: Sequence[int], static_argnames: Sequence[str], key: Any,
               shard_arg: Callable[[Any, Any, Any], Any]) -> PjitFunction:  # fmt: skip
    """A native callable that runs cached signatures without Python.

    Args:
        name: shown in errors and profiles.
        fun: the user's function; called directly under `disable_jit`.
        cache_miss: `(*args, **kwargs) -> (result, FastPath or None)`.
        key: hashable; functions with the same `fun` and key share what they know.
        shard_arg: `(value, native sharding, layout) -> array`, for arguments native code cannot place.
    """

    def miss(*args, **kwargs):
        if config.disable_jit:
            return fun(*args, **kwargs), None, False
        try:
            out, fast = cache_miss(*args, **kwargs)
        except SystemError as error:
            # Native code that found no end of an argument calls with that error still set, which the first call here that looks for one
            # meets. The second time it is gone, and the argument is refused by name.
            if not isinstance(error.__cause__, RecursionError):
                raise
            out, fast = cache_miss(*args, **kwargs)
        # Native code places Python numbers and NumPy arrays by its own x64 switch. While that switch belongs to
        # JAX and disagrees with ours, it must not place anything for us.
        if fast is not None and not native.owns_state() and not _x64_agrees():
            fast = None
        return out, fast, False

    return _jax.pjit(
        name,
        fun,
        miss,
        list(static_argnums),
        list(static_argnames),
        key,
        dispatch_registry,
        shard_arg,
        _cache,
    )


def _x64_agrees() -> bool:
    import sys

    theirs = getattr(sys.modules.get("jax"), "config", None)
    return bool(getattr(theirs, "jax_enable_x64", False)) == config.enable_x64


def signature_count(fn: PjitFunction) -> int:
    """How many signatures of a function are cached."""
    return fn._cache_size()


def forget(fn: PjitFunction) -> None:
    """Clears a function's cached signatures."""
    fn._clear_cache()


def watch(on: bool) -> None:
    """While on, calls of this thread skip the native fast path, so that each can be observed."""
    native.WATCHED.set_local(True if on else native.UNSET)


def set_post_hook(hook: Callable[[Any, tuple, dict, Any], Any] | None) -> bool:
    """Calls `hook(function, args, kwargs, result)` after every native call; False if the hook is not ours to set."""
    if not native.owns_state():
        return False
    native.POST_HOOK.set_global(hook)
    return True


def clear_native_caches() -> None:
    """Forgets every signature of every function."""
    _cache.clear()


caches.register(clear_native_caches)
