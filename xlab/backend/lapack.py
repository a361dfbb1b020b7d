"""LAPACK: jaxlib's calls into SciPy's library, registered with the compiler at first use.

Example:
    >>> "lapack_spotrf_ffi" in ready()
    True
"""

from __future__ import annotations

import functools
import threading

from xlab.backend.native import _jax

_lock = threading.Lock()
PLATFORM = "Host"
TYPED_FFI = 1


def ready() -> frozenset[str]:
    """Registers the calls with the compiler, once per process; returns their names."""
    with _lock:
        return _registered()


@functools.cache
def _registered() -> frozenset[str]:
    from jaxlib.cpu import _lapack

    try:
        _lapack.initialize()
    except ImportError as e:
        raise ImportError(
            f"linear algebra runs on the LAPACK that SciPy brings, and SciPy could not be imported ({e}). Install it with "
            f"`pip install scipy`."
        ) from e
    known = _jax.custom_call_targets(PLATFORM)
    calls = _lapack.registrations()
    for name, call in calls.items():
        if name not in known:  # JAX in the same process may have registered it
            _jax.register_custom_call_target(name, call, platform=PLATFORM, api_version=TYPED_FFI)
        _jax.register_custom_call_as_batch_partitionable(name)
    return frozenset(calls)
