"""Neural networks as pairs of functions: one makes parameters, one computes.

A layer is `(init_fun, apply_fun)`. `init_fun(rng, input_shape)` gives the shape of the output and the parameters;
`apply_fun(params, inputs, **kwargs)` the output, where `rng=` is a key for layers that draw.

Example:
    >>> import xlab
    >>> init, apply = serial(Dense(4), Relu, Dense(2))
    >>> shape, params = init(xlab.random.key(0), (-1, 3))
    >>> shape, apply(params, xlab.numpy.ones((5, 3))).shape
    ((-1, 2), (5, 2))
"""

from __future__ import annotations

import functools
import math
import operator as op

from xlab import lax, random
from xlab import numpy as jnp
from xlab.lax.conv_functions import conv_general_shape_tuple, conv_transpose_shape_tuple
from xlab.lax.windows import padtype_to_pads, reduce_window_shape_tuple
from xlab.nn import (
    elu,
    gelu,
    leaky_relu,
    log_softmax,
    relu,
    selu,
    sigmoid,
    softmax,
    softplus,
    standardize,
)
from xlab.nn.initializers import glorot_normal, normal, ones, zeros

__all__ = [
    "AvgPool", "BatchNorm", "Conv", "Conv1DTranspose", "ConvTranspose", "Dense", "Dropout", "Elu", "Exp", "FanInConcat", "FanInSum",
    "FanOut", "Flatten", "Gelu", "GeneralConv", "GeneralConvTranspose", "Identity", "LeakyRelu", "LogSoftmax", "MaxPool", "Relu", "Selu",
    "Sigmoid", "Softmax", "Softplus", "SumPool", "Tanh", "elementwise", "glorot", "logsoftmax", "parallel", "randn", "serial",
    "shape_dependent",
]  # fmt: skip

glorot, randn, logsoftmax = glorot_normal, normal, log_softmax  # as programs import them from here


# -- layers with parameters -----------------------------------------------------------------------------------


def Dense(out_dim, W_init=glorot_normal(), b_init=normal()):
    """A linear layer with a bias.

    Args:
        out_dim: how many features come out.
        W_init, b_init: initializers of the weights, of shape `(in, out)`, and of the bias.
    """

    def init_fun(rng, input_shape):
        for_weights, for_bias = random.split(rng)
        weights = W_init(for_weights, (input_shape[-1], out_dim))
        return (*input_shape[:-1], out_dim), (weights, b_init(for_bias, (out_dim,)))

    def apply_fun(params, inputs, **kwargs):
        weights, bias = params
        return jnp.dot(inputs, weights) + bias

    return init_fun, apply_fun


def GeneralConv(
    dimension_numbers,
    out_chan,
    filter_shape,
    strides=None,
    padding="VALID",
    W_init=None,
    b_init=normal(1e-6),
):
    """A convolution with a bias.

    Args:
        dimension_numbers: layouts of inputs, filters and outputs, such as `("NHWC", "HWIO", "NHWC")`.
        out_chan: how many channels come out.
        filter_shape: the extents of the filter in space.
        strides: in space, 1 by default.
        padding: "VALID", "SAME", or pairs.
        W_init, b_init: initializers of the filters, Glorot's by default, and of the bias.
    """
    strides = strides or (1,) * len(filter_shape)

    def out_shape(inputs, filters):
        return conv_general_shape_tuple(inputs, filters, strides, padding, dimension_numbers)

    def convolve(inputs, filters):
        return lax.conv_general_dilated(
            inputs, filters, strides, padding, None, None, dimension_numbers
        )

    return _convolution(
        dimension_numbers, out_chan, filter_shape, W_init, b_init, out_shape, convolve
    )


def GeneralConvTranspose(
    dimension_numbers,
    out_chan,
    filter_shape,
    strides=None,
    padding="VALID",
    W_init=None,
    b_init=normal(1e-6),
):
    """A transposed convolution with a bias; arguments as for `GeneralConv`.

    Args:
        dimension_numbers: layouts of inputs, filters and outputs.
        out_chan: how many channels come out.
        filter_shape: the extents of the filter in space.
        strides: in space, 1 by default.
        padding: "VALID", "SAME", or pairs.
        W_init, b_init: initializers of the filters, Glorot's by default, and of the bias.
    """
    strides = strides or (1,) * len(filter_shape)

    def out_shape(inputs, filters):
        return conv_transpose_shape_tuple(inputs, filters, strides, padding, dimension_numbers)

    def convolve(inputs, filters):
        return lax.conv_transpose(
            inputs, filters, strides, padding, dimension_numbers=dimension_numbers
        )

    return _convolution(
        dimension_numbers, out_chan, filter_shape, W_init, b_init, out_shape, convolve
    )


def _convolution(dimension_numbers, out_chan, filter_shape, W_init, b_init, out_shape, convolve):
    of_inputs, of_filters, of_outputs = dimension_numbers
    W_init = W_init or glorot_normal(of_filters.index("O"), of_filters.index("I"))

    def init_fun(rng, input_shape):
        extents = iter(filter_shape)
        channels = {"O": out_chan, "I": input_shape[of_inputs.index("C")]}
        filters = tuple(channels[c] if c in channels else next(extents) for c in of_filters)
        batch = of_inputs.index("N")
        # A batch whose size is left open has the size -1.
        known = tuple(1 if i == batch else size for i, size in enumerate(input_shape))
        found = list(out_shape(known, filters))
        found[of_outputs.index("N")] = input_shape[batch]
        bias = tuple(out_chan if c == "C" else 1 for c in of_outputs)
        for_filters, for_bias = random.split(rng)
        return tuple(map(int, found)), (W_init(for_filters, filters), b_init(for_bias, bias))

    def apply_fun(params, inputs, **kwargs):
        filters, bias = params
        return convolve(inputs, filters) + bias

    return init_fun, apply_fun


Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))


def BatchNorm(
    axis=(0, 1, 2), epsilon=1e-5, center=True, scale=True, beta_init=zeros, gamma_init=ones
):
    """Inputs with the mean zero and the variance one over some axes, then scaled and shifted.

    Args:
        axis: over which means are taken.
        epsilon: is added to the variance.
        center, scale: whether there is a shift, and a scale.
        beta_init, gamma_init: initializers of shift and scale.

    Source:
        Ioffe and Szegedy (2015), Batch normalization.
    """
    axis = (axis,) if jnp.isscalar(axis) else tuple(axis)

    def init_fun(rng, input_shape):
        shape = tuple(size for i, size in enumerate(input_shape) if i not in axis)
        for_shift, for_scale = random.split(rng)
        shift = beta_init(for_shift, shape) if center else ()
        return input_shape, (shift, gamma_init(for_scale, shape) if scale else ())

    def apply_fun(params, x, **kwargs):
        along = tuple(None if i in axis else slice(None) for i in range(x.ndim))
        shift, factor = params
        z = standardize(x, axis, epsilon=epsilon)
        if scale:
            z = factor[along] * z
        return z + shift[along] if center else z

    return init_fun, apply_fun


# -- layers without -------------------------------------------------------------------------------------------


def elementwise(fun, **fun_kwargs):
    """A layer that is a function of single numbers, with keywords of its own."""

    def init_fun(rng, input_shape):
        return input_shape, ()

    def apply_fun(params, inputs, **kwargs):
        return fun(inputs, **fun_kwargs)

    return init_fun, apply_fun


Tanh, Relu, Exp = elementwise(jnp.tanh), elementwise(relu), elementwise(jnp.exp)
LogSoftmax, Softmax = elementwise(log_softmax, axis=-1), elementwise(softmax, axis=-1)
Softplus, Sigmoid, Elu = elementwise(softplus), elementwise(sigmoid), elementwise(elu)
LeakyRelu, Selu, Gelu = elementwise(leaky_relu), elementwise(selu), elementwise(gelu)


def _pooling(reducer, start, rescale=None):
    def pooling(window_shape, strides=None, padding="VALID", spec=None):
        """A layer that reduces windows in space.

        Args:
            window_shape: the extents of a window.
            strides: from a window to the next, 1 by default.
            padding: "VALID" or "SAME".
            spec: where batch and channels are, as in "NCHW"; the first and the last axis by default.
        """
        strides = strides or (1,) * len(window_shape)
        batch, channels = (
            (0, len(window_shape) + 1) if spec is None else (spec.index("N"), spec.index("C"))
        )
        window, steps = list(window_shape), list(strides)
        for i in sorted((batch, channels)):
            window.insert(i, 1)
            steps.insert(i, 1)

        def init_fun(rng, input_shape):
            known = tuple(1 if i == batch else size for i, size in enumerate(input_shape))
            pads = (
                padtype_to_pads(known, window, steps, padding)
                if isinstance(padding, str)
                else padding
            )
            found = list(reduce_window_shape_tuple(known, window, steps, pads))
            found[batch] = input_shape[batch]
            return tuple(map(int, found)), ()

        def apply_fun(params, inputs, **kwargs):
            out = lax.reduce_window(inputs, start, reducer, tuple(window), tuple(steps), padding)
            if rescale is None:
                return out
            one = jnp.ones(
                [w if i in space else 1 for i, w in enumerate(inputs.shape)], inputs.dtype
            )
            return out / lax.reduce_window(one, 0.0, lax.add, tuple(window), tuple(steps), padding)

        space = [i for i in range(len(window)) if i not in (batch, channels)]
        return init_fun, apply_fun

    return pooling


MaxPool = _pooling(lax.max, -jnp.inf)
SumPool = _pooling(lax.add, 0.0)
AvgPool = _pooling(lax.add, 0.0, rescale=True)
for _name, _layer in (("MaxPool", MaxPool), ("SumPool", SumPool), ("AvgPool", AvgPool)):
    _layer.__name__ = _layer.__qualname__ = _name


def _flatten():
    def init_fun(rng, input_shape):
        return (input_shape[0], math.prod(input_shape[1:])), ()

    def apply_fun(params, inputs, **kwargs):
        return jnp.reshape(inputs, (inputs.shape[0], -1))

    return init_fun, apply_fun


Flatten = _flatten()
Identity = elementwise(lambda x: x)


def FanOut(num):
    """A layer whose output is its input, `num` times."""
    return (lambda rng, shape: ([shape] * num, ())), (
        lambda params, inputs, **kwargs: [inputs] * num
    )


def _sum_of_inputs():
    def init_fun(rng, input_shape):
        return input_shape[0], ()

    def apply_fun(params, inputs, **kwargs):
        return functools.reduce(op.add, inputs)

    return init_fun, apply_fun


FanInSum = _sum_of_inputs()


def FanInConcat(axis=-1):
    """A layer that joins its inputs along an axis."""

    def init_fun(rng, input_shape):
        shape = list(input_shape[0])
        shape[axis] = sum(s[axis] for s in input_shape)
        return tuple(shape), ()

    def apply_fun(params, inputs, **kwargs):
        return jnp.concatenate(inputs, axis)

    return init_fun, apply_fun


def Dropout(rate, mode="train"):
    """A layer that sets numbers to zero at random, and makes the others larger.

    Args:
        rate: how many are kept, from 0 to 1.
        mode: "train"; otherwise all are kept.
    """

    def init_fun(rng, input_shape):
        return input_shape, ()

    def apply_fun(params, inputs, **kwargs):
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError(
                "Dropout layer requires apply_fun to be called with a PRNG key argument. That is, instead of "
                "`apply_fun(params, inputs)`, call it like `apply_fun(params, inputs, rng=rng)` where `rng` is a PRNG "
                "key (e.g. from `xlab.random.key`)."
            )
        if mode != "train":
            return inputs
        return jnp.where(random.bernoulli(rng, rate, inputs.shape), inputs / rate, 0)

    return init_fun, apply_fun


# -- layers of layers -----------------------------------------------------------------------------------------


def _keys(rng, number):
    return (None,) * number if rng is None else random.split(rng, number)


def serial(*layers):
    """Layers one after the other, as one.

    Args:
        layers: pairs `(init_fun, apply_fun)`.
    """

    def init_fun(rng, input_shape):
        params = []
        for init, _ in layers:
            rng, key = random.split(rng)
            input_shape, param = init(key, input_shape)
            params.append(param)
        return input_shape, params

    def apply_fun(params, inputs, **kwargs):
        for (_, apply), param, key in zip(
            layers, params, _keys(kwargs.pop("rng", None), len(layers))
        ):
            inputs = apply(param, inputs, rng=key, **kwargs)
        return inputs

    return init_fun, apply_fun


def parallel(*layers):
    """Layers side by side, each with an input of its own, as one; between `FanOut` and `FanInSum` or `FanInConcat`.

    Args:
        layers: pairs `(init_fun, apply_fun)`.
    """

    def init_fun(rng, input_shape):
        made = [
            init(key, shape)
            for (init, _), key, shape in zip(layers, random.split(rng, len(layers)), input_shape)
        ]
        return [shape for shape, _ in made], tuple(params for _, params in made)

    def apply_fun(params, inputs, **kwargs):
        keys = _keys(kwargs.pop("rng", None), len(layers))
        return [
            apply(p, x, rng=key, **kwargs)
            for (_, apply), p, x, key in zip(layers, params, inputs, keys)
        ]

    return init_fun, apply_fun


def shape_dependent(make_layer):
    """A layer that is made when the shape of its input is known.

    Args:
        make_layer: from the shape to a layer.
    """

    def init_fun(rng, input_shape):
        return make_layer(input_shape)[0](rng, input_shape)

    def apply_fun(params, inputs, **kwargs):
        return make_layer(inputs.shape)[1](params, inputs, **kwargs)

    return init_fun, apply_fun
