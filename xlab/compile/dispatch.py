"""One primitive, eagerly: a one-operation program per primitive and parameters."""

from __future__ import annotations

import functools

from xlab.backend import caches
from xlab.compile.jit import jit
from xlab.config import config, disable_jit
from xlab.core import trace as _trace


@functools.lru_cache(maxsize=4096)
def _callable(prim, params, context):
    params = dict(params)

    def apply(*args):
        return prim.bind(*args, **params)
    apply.__name__ = apply.__qualname__ = prim.name
    apply._apply_primitive = True
    return jit(apply)


caches.register(_callable.cache_clear)


def apply_primitive(prim, *args, **params):
    """Runs one primitive on concrete values through its compiled one-operation program."""
    try:
        fun = _callable(prim, tuple(params.items()), config.trace_context())
    except TypeError as e:
        if "unhashable" not in str(e):
            raise
        raise TypeError(f"primitive '{prim.name}' got a parameter that cannot be hashed ({e}); everything static "
                        f"that goes to bind by keyword must be hashable") from None
    if config.disable_jit:
        with disable_jit(False):
            return fun(*args)
    return fun(*args)


def _default_impl(prim):
    impl = functools.partial(apply_primitive, prim)
    prim.impl = impl
    return impl


_trace.set_default_impl(_default_impl)
