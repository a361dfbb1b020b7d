"""The primitives of random keys: making, splitting, folding in, drawing bits, and opening them.

Keys are arrays of a key type, whose elements programs compute with as small arrays of words; `Implementation` says how
the words are made and used. Everything else in this room is arithmetic on the bits drawn here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from xlab.backend import caches
from xlab.compile import runtime_checks
from xlab.compile.jit import jit
from xlab.config import config, disable_jit
from xlab.core import dtypes
from xlab.core.array import KeyArray
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.dtypes import KeyDType
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import elementwise_sharding, sharding_rules
from xlab.interpreters import ad, batching, costs, mlir
from xlab.lax import sharding_in_types
from xlab.lax.elementwise import joint_shape
from xlab.random import rbg, threefry


@dataclass(frozen=True, eq=False)
class Implementation:
    """A kind of random key: its names, the shape of its words, and how each primitive is written for it."""

    name: str
    tag: str
    key_shape: tuple[int, ...]
    seed: Callable
    split: Callable
    fold_in: Callable
    bits: Callable
    custom: bool = False  # made by `define_prng_impl`: another one may have its tag

    def __repr__(self):
        return self.tag

    @functools.cached_property
    def dtype(self) -> KeyDType:
        """The type of arrays of such keys."""
        return KeyDType(self.tag, self.key_shape, self)


def _implementation(name, tag, key_shape, module):
    return Implementation(
        name, tag, key_shape, module.seed, module.split, module.fold_in, module.bits
    )


implementations: dict[str, Implementation] = {
    "threefry2x32": _implementation("threefry2x32", "fry", (2,), threefry),
    "rbg": _implementation("rbg", "rbg", (4,), rbg),
    "unsafe_rbg": _implementation("unsafe_rbg", "urbg", (4,), rbg.unsafe),
}


def is_key_dtype(dtype) -> bool:
    return type(dtype) is KeyDType


def _check_keys(prim: str, keys):
    if not is_key_dtype(keys.dtype):
        raise TypeError(
            f"{prim} takes an array of random keys, got {keys}: make keys with xlab.random.key(seed), or from "
            f"bits with xlab.random.wrap_key_data"
        )


# -- types ---------------------------------------------------------------------------------------------------


def _seed_aval(seeds, *, impl):
    if not dtypes.issubdtype(seeds.dtype, np.integer):
        raise TypeError(f"seeds are integers, got {seeds}")
    return ShapedArray(seeds.shape, impl.dtype)


def _split_aval(keys, *, shape):
    _check_keys("random_split", keys)
    return ShapedArray((*keys.shape, *shape), keys.dtype)


def _fold_in_aval(keys, data):
    _check_keys("random_fold_in", keys)
    if data.dtype != np.uint32:
        raise TypeError(f"random_fold_in takes uint32 data, got {data}")
    return ShapedArray(joint_shape("random_fold_in", (keys, data)), keys.dtype)


def _bits_aval(keys, *, bit_width, shape):
    _check_keys("random_bits", keys)
    if bit_width not in (8, 16, 32, 64):
        raise TypeError(
            f"random_bits draws words of 8, 16, 32 or 64 bits, got bit_width={bit_width}"
        )
    return ShapedArray((*keys.shape, *shape), np.dtype(f"uint{bit_width}"))


def _wrap_aval(data, *, impl):
    n = len(impl.key_shape)
    if data.dtype != np.uint32:
        raise TypeError(f"keys are made of uint32 words, got {data}")
    if data.shape[max(data.ndim - n, 0) :] != impl.key_shape:
        raise TypeError(
            f"the data of {impl.name} keys has a shape that ends with {impl.key_shape}, got {data}"
        )
    return ShapedArray(data.shape[: data.ndim - n], impl.dtype)


def _unwrap_aval(keys):
    _check_keys("random_unwrap", keys)
    return ShapedArray((*keys.shape, *keys.dtype.key_shape), np.dtype(np.uint32))


# -- lowering ------------------------------------------------------------------------------------------------


_ALONE = 3  # equations of a program that wraps keys, does one thing with them and opens the result


def _made_once(ctx, name, body, operands, avals_in, aval_out):
    """Keys and bits in a function of their own, so that not all who read them hash again; in place where the program does nothing else."""
    if len(ctx.module.numbers) <= _ALONE:
        return body(operands)
    return ctx.apart(name, body, operands, avals_in, aval_out)


def _fold_in_lowering(ctx, keys, data):
    a, b = ctx.avals_in
    out = ctx.avals_out[0]
    impl = out.dtype.impl
    keys = ctx.broadcast(
        keys,
        mlir.values.physical_aval(a),
        mlir.values.physical_aval(out),
        (*range(out.ndim - a.ndim, out.ndim), *range(out.ndim, out.ndim + len(impl.key_shape))),
    )
    key = mlir.values.physical_aval(out)
    return _made_once(
        ctx,
        "fold_in",
        lambda names: impl.fold_in(ctx, *names, b, out.shape),
        (keys, data),
        (key, b),
        key,
    )


def _bits_lowering(ctx, keys, *, bit_width, shape):
    aval = ctx.avals_in[0]
    out = ctx.avals_out[0]
    if out.size == 0:
        return ctx.fill(0, out)
    return _made_once(
        ctx,
        "bits",
        lambda names: aval.dtype.impl.bits(ctx, *names, aval.shape, shape, bit_width),
        (keys,),
        (mlir.values.physical_aval(aval),),
        out,
    )


def _split_lowering(ctx, keys, *, shape):
    aval = ctx.avals_in[0]
    if ctx.avals_out[0].size == 0:
        return ctx.fill(0, mlir.values.physical_aval(ctx.avals_out[0]))
    return _made_once(
        ctx,
        "split",
        lambda names: aval.dtype.impl.split(ctx, *names, aval.shape, shape),
        (keys,),
        (mlir.values.physical_aval(aval),),
        mlir.values.physical_aval(ctx.avals_out[0]),
    )


# -- eager calls: one program on the words of the keys, so that calls stay on the native path ---------------------


@functools.lru_cache(maxsize=4096)
def _program(prim, impl, params, context):
    params = dict(params)

    def run(data, *rest):
        out = prim.bind(
            random_wrap_p.bind(data, impl=impl) if impl is not None else data, *rest, **params
        )
        return random_unwrap_p.bind(out) if is_key_dtype(aval_of(out).dtype) else out

    run.__name__ = run.__qualname__ = prim.name
    return jit(run)


caches.register(_program.cache_clear)


def _run(prim, impl, params, *args):
    fun = _program(prim, impl, tuple(params.items()), config.trace_context())
    if config.disable_jit:
        with disable_jit(False):
            return fun(*args)
    return fun(*args)


def _eager(prim, gives_keys: bool):
    @prim.def_impl
    def impl(keys, *rest, **params):
        if type(keys) is not KeyArray:
            _check_keys(prim.name, aval_of(keys))
        if config.debug_key_reuse and prim is not random_fold_in_p:
            runtime_checks.use_key(prim.name, keys)
        dtype = keys.aval.dtype
        out = _run(prim, dtype.impl, params, keys.base, *rest)
        if not gives_keys:
            return out
        made = KeyArray(out, dtype)
        if config.debug_key_reuse:
            runtime_checks.made_key(made)
        return made


def _declare(name: str, aval, batch, lowering) -> Primitive:
    prim = Primitive(name)
    prim.def_abstract_eval(aval)
    ad.defzero(prim)
    batching.primitive_batchers[prim] = batch
    sharding_rules[prim] = (
        elementwise_sharding if name == "random_fold_in" else sharding_in_types.leading_dimensions
    )
    mlir.register_text_lowering(prim, lowering)
    return prim


def _front(prim):
    """Batching rule of primitives that map over keys and append dimensions: the batch dimension goes first."""

    def rule(xs, dims, **params):
        return prim().bind(batching.moveaxis(xs[0], dims[0], 0), **params), 0

    return rule


random_seed_p = _declare(
    "random_seed",
    _seed_aval,
    lambda xs, dims, impl: (random_seed_p.bind(xs[0], impl=impl), dims[0]),
    lambda ctx, seeds, impl: impl.seed(ctx, seeds, ctx.avals_in[0]),
)
random_split_p = _declare(
    "random_split", _split_aval, _front(lambda: random_split_p), _split_lowering
)
random_fold_in_p = _declare(
    "random_fold_in",
    _fold_in_aval,
    lambda xs, dims: batching.broadcast_batcher(random_fold_in_p, xs, dims),
    _fold_in_lowering,
)
random_bits_p = _declare("random_bits", _bits_aval, _front(lambda: random_bits_p), _bits_lowering)
random_wrap_p = _declare(
    "random_wrap", _wrap_aval, _front(lambda: random_wrap_p), lambda ctx, data, impl: data
)
random_unwrap_p = _declare(
    "random_unwrap",
    _unwrap_aval,
    lambda xs, dims: (random_unwrap_p.bind(xs[0]), dims[0]),
    lambda ctx, keys: keys,
)

_eager(random_split_p, True)
_eager(random_fold_in_p, True)
_eager(random_bits_p, False)


@random_seed_p.def_impl
def _seed_now(seeds, *, impl):
    return KeyArray(_run(random_seed_p, None, {"impl": impl}, seeds), impl.dtype)


@random_wrap_p.def_impl
def _wrap_now(data, *, impl):
    _wrap_aval(aval_of(data), impl=impl)
    if not hasattr(data, "aval"):
        data = _program_identity()(data)
    return KeyArray(data, impl.dtype)


@functools.cache
def _program_identity():
    def random_wrap(data):
        return data

    return jit(random_wrap)


@random_unwrap_p.def_impl
def _unwrap_now(keys):
    if type(keys) is not KeyArray:
        _check_keys("random_unwrap", aval_of(keys))
    return keys.base


def _hashed(avals_in, avals_out, **_):
    return costs.Cost(58 * max(1, costs.bytes_of(avals_out) // 4))


costs.register(costs.free, random_seed_p, random_wrap_p, random_unwrap_p)
costs.register(_hashed, random_split_p, random_fold_in_p, random_bits_p)
