"""Eager execution of one primitive: a one-operation program per primitive and parameters."""

from __future__ import annotations

import functools

from xlab import events
from xlab.backend import caches
from xlab.backend.neighbors import is_jaxs
from xlab.compile.jit import jit
from xlab.config import config, disable_jit
from xlab.core import trace as _trace
from xlab.core.avals import aval_of, value_and_type
from xlab.core.hi_states import is_mutable
from xlab.core.hi_types import in_use
from xlab.errors import InvalidInputException


@functools.lru_cache(maxsize=4096)
def _callable(prim, params, context, places=None):
    if not prim.has_abstract_eval:
        raise NotImplementedError(
            f"Evaluation rule for '{prim.name}' not implemented: to run it on values, define {prim.name}_p.def_impl(rule), or how "
            f"programs run it, {prim.name}_p.def_abstract_eval(rule) and a lowering (mlir.register_lowering)"
        )
    events.count("eager_cache_miss")
    params = dict(params)

    def apply(*args):
        return prim.bind(*(args if places is None else [args[i] for i in places]), **params)

    apply.__name__ = apply.__qualname__ = prim.name
    apply._apply_primitive = apply._single_operation = True
    return jit(apply)


caches.register(_callable.cache_clear)


def eager_cache_info():
    """Hits, misses and size of the cache of one-operation programs, as `functools.lru_cache` counts them.

    Entries keep the parameters of primitives alive, programs among them; `clear_caches` lets go of all.
    """
    return _callable.cache_info()


def apply_primitive(prim, *args, **params):
    """Runs one primitive on concrete values through its compiled one-operation program."""
    places = None
    if in_use.mutable and any(map(is_mutable, args)):
        # The condition and the body of a loop may close over the same value: it goes in once.
        numbers: dict[int, int] = {}
        places = tuple(numbers.setdefault(id(x), len(numbers)) for x in args)
        args = [next(x for x in args if id(x) == i) for i in numbers]
    try:
        fun = _callable(prim, tuple(params.items()), config.trace_context(), places)
    except TypeError as e:
        if "unhashable" not in str(e):
            raise
        raise TypeError(
            f"primitive '{prim.name}' got a parameter that cannot be hashed ({e}); everything static "
            f"that goes to bind by keyword must be hashable"
        ) from None
    try:
        if config.disable_jit:
            with disable_jit(False):
                return fun(*args)
        return fun(*args)
    except InvalidInputException:
        _check_operands(prim, args)
        raise


def _check_operands(prim, args) -> None:
    """Raises for the first operand that is not an array, with the primitive's own message."""
    for i, x in enumerate(args):
        try:
            aval_of(x)
        except InvalidInputException:
            if is_jaxs(x):
                raise
            if not hasattr(type(x), "__jax_array__"):
                raise InvalidInputException(
                    f"{prim.name} takes arrays and numbers, but its operand {i} is {value_and_type(x)}. "
                    f"Convert it to an array first, e.g. with xlab.numpy.asarray."
                ) from None


def _default_impl(prim):
    impl = functools.partial(apply_primitive, prim)
    prim.impl = impl
    return impl


_trace.set_default_impl(_default_impl, apply_primitive)
