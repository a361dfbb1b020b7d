"""The discrete Fourier transform over one to three trailing dimensions."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.dims import dim_indices
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.mlir.values import dims_text
from xlab.lax import elementwise as _e
from xlab.lax import sharding_in_types
from xlab.lax.arithmetic import mul
from xlab.lax.complexes import conj, real
from xlab.lax.convert import convert
from xlab.lax.creation import full
from xlab.lax.shape import broadcast_in_dim, pad

__all__ = ["FftType", "fft"]


class FftType(enum.IntEnum):
    """Kinds of Fourier transform: forward, inverse, of real input, and inverse with real output."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def fft(x: ArrayLike, fft_type: str | int | FftType, fft_lengths: Sequence[int]) -> Array:
    """Fourier transform over as many trailing dimensions as there are lengths.

    Args:
        x: input; real input becomes complex where the transform needs it.
        fft_type: an `FftType` or its name.
        fft_lengths: sizes of the transformed dimensions, of the result for `IRFFT`, otherwise of the input.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> print(lax.fft(np.complex64([1, 0, 0, 0]), "fft", (4,)))
        [1.+0.j 1.+0.j 1.+0.j 1.+0.j]
    """
    if isinstance(fft_type, str):
        if fft_type.upper() not in FftType.__members__:
            raise ValueError(
                f"Unknown FFT type '{fft_type}': one of {', '.join(FftType.__members__)}"
            )
        kind = FftType[fft_type.upper()]
    elif isinstance(fft_type, FftType):
        kind = fft_type
    else:
        raise TypeError(
            f"Unknown FFT type value '{fft_type}': expected a lax.FftType or its name, one of "
            f"{', '.join(FftType.__members__)}"
        )
    lengths = dim_indices(fft_lengths)
    dtype = aval_of(x).dtype
    if kind is FftType.RFFT:
        if _e.complexes(dtype):
            raise ValueError(
                "only real valued inputs supported for rfft: take the real part, or use fft"
            )
        if not _e.floating(dtype):
            x = convert(x, dtypes.inexact_dtype(dtype))
    elif not _e.complexes(dtype):
        # Not by promotion, which leaves 8-bit floats out.
        double = dtypes.inexact_dtype(dtype) == np.float64
        x = convert(x, np.complex128 if double else np.complex64)
    if not lengths:
        return x
    return fft_p.bind(x, fft_type=kind, fft_lengths=lengths)


def _fft_aval(x, *, fft_type, fft_lengths):
    n = len(fft_lengths)
    if not 1 <= n <= 3:
        raise ValueError(
            f"an FFT is over 1 to 3 dimensions, got fft_lengths {fft_lengths}; transform some of them after the "
            f"others"
        )
    if x.ndim < n:
        raise ValueError(
            f"FFT input shape {x.shape} must have at least as many input dimensions as fft_lengths {fft_lengths}."
        )
    half = (*fft_lengths[:-1], fft_lengths[-1] // 2 + 1)
    wanted = half if fft_type is FftType.IRFFT else fft_lengths
    if x.shape[-n:] != wanted:
        raise ValueError(
            f"FFT input shape {x.shape} minor dimensions must be equal to fft_lengths {fft_lengths}"
            + (f", the last to half of it and 1, {wanted}" if wanted != fft_lengths else "")
        )
    shape = x.shape[: x.ndim - n]
    if fft_type is FftType.RFFT:
        if x.dtype not in (np.float32, np.float64):
            raise ValueError(f"RFFT input must be float32 or float64, got {dtypes.name(x.dtype)}")
        if not fft_lengths[-1]:
            raise ValueError(
                f"RFFT needs at least one element along the last dimension, got shape {x.shape}"
            )
        return ShapedArray((*shape, *half), dtypes.promote_types(x.dtype, np.complex64))
    if not _e.complexes(x.dtype):
        raise ValueError(
            f"{fft_type.name} input must be complex64 or complex128, got {dtypes.name(x.dtype)}"
        )
    dtype = _e.real_part_dtype(x.dtype) if fft_type is FftType.IRFFT else x.dtype
    return ShapedArray((*shape, *fft_lengths), dtype)


def _fft_transpose(ct, x, *, fft_type, fft_lengths):
    if fft_type in (FftType.FFT, FftType.IFFT):
        return [fft_p.bind(ct, fft_type=fft_type, fft_lengths=fft_lengths)]
    aval = aval_of(ct)
    if not aval.size:
        return [full(x.aval.shape, 0, x.aval.dtype)]
    if fft_type is FftType.RFFT:
        # The matrix is the first rows of the full, symmetric one: zeros for the others.
        missing = fft_lengths[-1] - aval.shape[-1]
        whole = pad(
            ct, np.zeros((), aval.dtype)[()], [(0, 0, 0)] * (aval.ndim - 1) + [(0, missing, 0)]
        )
        return [real(fft_p.bind(whole, fft_type=FftType.FFT, fft_lengths=fft_lengths))]
    # Each frequency stands for two, itself and its mirror image, but for the first and, if there is a middle, the last.
    n, half = fft_lengths[-1], x.aval.shape[-1]
    weights = np.full(half, 2.0 / math.prod(fft_lengths), aval.dtype)
    weights[0] /= 2
    if n % 2 == 0:
        weights[-1] /= 2
    spectrum = fft_p.bind(ct, fft_type=FftType.RFFT, fft_lengths=fft_lengths)
    scale = broadcast_in_dim(weights.astype(x.aval.dtype), x.aval.shape, (x.aval.ndim - 1,))
    return [conj(mul(scale, spectrum))]


def _fft_batch(xs, dims, **params):
    return fft_p.bind(batching.moveaxis(xs[0], dims[0], 0), **params), 0


def _fft_lowering(ctx, x, *, fft_type, fft_lengths):
    out = ctx.avals_out[0]
    if not out.size or not ctx.avals_in[0].size:
        return ctx.fill(np.zeros((), out.dtype), out)
    if fft_type is FftType.FFT:
        x = _gathered(ctx, x, ctx.avals_in[0])
    return ctx.op(
        f"stablehlo.fft {x}, type = {fft_type.name}, length = {dims_text(fft_lengths)} : ({ctx.type_in()}) -> "
        f"{ctx.type_out()}"
    )


def _gathered(ctx, x: str, aval) -> str:
    """The operand, whole along its last dimension: left to itself the partitioner gathers it too, but not always.

    With the last of three or more dimensions over all devices it lets each device send a part of its part to every other. That ends the
    process where the parts do not divide, and the numbers are wrong where the devices are not in the order of their numbers.
    """
    devices = ctx.module.devices
    by_hand = ctx.mesh is not None and set(ctx.mesh.axis_names) <= set(ctx.manual)
    if devices == 1 or by_hand or aval.ndim < 3:
        return x
    mesh = (
        ctx.module.meshes.symbol(ctx.mesh)
        if ctx.mesh is not None
        else ctx.module.meshes.whole(devices)
    )
    dims = ", ".join(["{?}"] * (aval.ndim - 1) + ["{}"])
    return ctx.op(f"sdy.sharding_constraint {x} <@{mesh}, [{dims}]> : {mlir.tensor_type(aval)}")


fft_p = Primitive("fft")
fft_p.linear_in_unreduced = True
fft_p.def_abstract_eval(_fft_aval)
ad.deflinear2(fft_p, _fft_transpose)
sharding_rules[fft_p] = sharding_in_types.resized("a Fourier transform")
batching.primitive_batchers[fft_p] = _fft_batch
mlir.register_text_lowering(fft_p, _fft_lowering)


def _cost(avals_in, avals_out, *, fft_lengths, **_):
    # 5 n log2 n of a complex transform of n elements, as is usual to count; half of it where one side is real.
    n = math.prod(fft_lengths)
    complex_sides = sum(a.dtype.kind == "c" for a in (avals_in[0], avals_out[0]))
    batch = max(avals_in[0].size, avals_out[0].size) / max(1, n)
    return costs.Cost(int(2.5 * complex_sides * batch * n * math.log2(max(n, 2))), unit="transform")


costs.register(_cost, fft_p)
