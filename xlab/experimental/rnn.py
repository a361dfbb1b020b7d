"""Long short-term memory over batches of sequences, in several layers and one or both directions.

One cell (Hochreiter and Schmidhuber, 1997; with forget gates, Gers, Schmidhuber and Cummins, 2000) with two biases, as PyTorch and cuDNN
have it: with `a = W_ih x + b_ih + W_hh h + b_hh` in four blocks `a_i, a_f, a_g, a_o` of `hidden_size` rows,

    c' = sigmoid(a_f) * c + sigmoid(a_i) * tanh(a_g)
    h' = sigmoid(a_o) * tanh(c')

A layer with both directions counts as two *pseudo-layers*, forward before reverse. The weights of all pseudo-layers are one vector, as
cuDNN packs them: `W_ih, W_hh` of the first, of the second, and so on, then `b_ih, b_hh` of each. It runs on every device.

Example:
    >>> import xlab, xlab.numpy as jnp
    >>> weights = init_lstm_weight(xlab.random.key(0), 3, 4, num_layers=1, bidirectional=True)
    >>> h = c = jnp.zeros((2, 5, 4))
    >>> y, h_n, c_n = lstm(jnp.ones((5, 7, 3)), h, c, weights, jnp.full(5, 7), 3, 4, 1, 0.0, True)
    >>> y.shape, h_n.shape
    ((5, 7, 8), (2, 5, 4))
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from xlab import lax, random
from xlab import numpy as jnp
from xlab.nn import sigmoid

__all__ = [
    "get_num_params_in_lstm",
    "init_lstm_weight",
    "lstm",
    "lstm_ref",
    "swap_lstm_gates",
    "unpack_lstm_weights",
]


def lstm(
    x: Any,
    h_0: Any,
    c_0: Any,
    weights: Any,
    seq_lengths: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: Any = None,
) -> tuple[Any, Any, Any]:
    """The LSTM with its weights in one vector.

    Args:
        x: `f[batch, time, input_size]`.
        h_0, c_0: `f[pseudo-layers, batch, hidden_size]`, the states before the first step.
        weights: `f[get_num_params_in_lstm(...)]`.
        seq_lengths: `i[batch]`, how many steps of each example count: states stay as they are in the others, whose results are zero,
            and the reverse direction begins at an example's last step.
        dropout: has to be 0: drop parts of `y` between layers of one call each, with `random.bernoulli`.
        precision: of the products, as `lax.dot` takes it.

    Returns:
        `(y, h_n, c_n)`: `y` is `f[batch, time, hidden_size]` of the last layer, with the reverse direction behind the forward one;
        the others are like `h_0`.

    Raises:
        ValueError: for shapes that do not fit together, and a `dropout` that is not 0.
    """
    unpacked = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)
    return _lstm(x, h_0, c_0, unpacked, seq_lengths, dropout, bidirectional, precision)


def lstm_ref(
    x: Any,
    h_0: Any,
    c_0: Any,
    W_ih: Mapping[int, Any],
    W_hh: Mapping[int, Any],
    b_ih: Mapping[int, Any],
    b_hh: Mapping[int, Any],
    seq_lengths: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
) -> tuple[Any, Any, Any]:
    """Like `lstm`, with weights by pseudo-layer, as `unpack_lstm_weights` returns them.

    Raises:
        ValueError: as `lstm`.
    """
    shapes = _shapes(input_size, hidden_size, num_layers, bidirectional)
    for name, given, at in (("W_ih", W_ih, 0), ("W_hh", W_hh, 1), ("b_ih", b_ih, 2), ("b_hh", b_hh, 3)):  # fmt: skip
        for layer, wanted in enumerate(shapes):
            if np.shape(given.get(layer)) != wanted[at]:
                raise ValueError(
                    f"lstm_ref: {name}[{layer}] has to be of shape {wanted[at]}, got {np.shape(given.get(layer))}: gates come one after "
                    f"the other along the first axis"
                )
    return _lstm(x, h_0, c_0, (W_ih, W_hh, b_ih, b_hh), seq_lengths, dropout, bidirectional, None)


def get_num_params_in_lstm(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> int:
    """How many weights an LSTM has.

    Example:
        >>> get_num_params_in_lstm(3, 4, num_layers=1, bidirectional=False)
        144
    """
    shapes = _shapes(input_size, hidden_size, num_layers, bidirectional)
    return sum(math.prod(s) for layer in shapes for s in layer)


def init_lstm_weight(
    rng: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Any:
    """Random weights, uniform between `-k` and `k` for `k = hidden_size ** -0.5`, as one vector.

    Example:
        >>> import xlab
        >>> init_lstm_weight(xlab.random.key(0), 3, 4, 1, False).shape
        (144,)
    """
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    k = math.sqrt(1 / hidden_size)
    return random.uniform(rng, (count,), np.float32, minval=-k, maxval=k)


def unpack_lstm_weights(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> tuple[dict[int, Any], dict[int, Any], dict[int, Any], dict[int, Any]]:
    """The weights of each pseudo-layer: `(W_ih, W_hh, b_ih, b_hh)`, dictionaries by its number.

    Raises:
        ValueError: when the vector has another length.

    Example:
        >>> import xlab.numpy as jnp
        >>> W_ih, W_hh, b_ih, b_hh = unpack_lstm_weights(jnp.zeros(144), 3, 4, 1, False)
        >>> W_ih[0].shape, W_hh[0].shape, b_ih[0].shape
        ((16, 3), (16, 4), (16,))
    """
    shapes = _shapes(input_size, hidden_size, num_layers, bidirectional)
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    weights = jnp.asarray(weights)
    if weights.shape != (count,):
        raise ValueError(
            f"the weights of an LSTM with input_size={input_size}, hidden_size={hidden_size}, num_layers={num_layers}, "
            f"bidirectional={bidirectional} are a vector of {count}, got the shape {weights.shape}: init_lstm_weight makes one"
        )
    out: tuple[dict[int, Any], ...] = ({}, {}, {}, {})
    start = 0
    for kinds in ((0, 1), (2, 3)):  # matrices of all pseudo-layers, then biases of all
        for layer, of_layer in enumerate(shapes):
            for kind in kinds:
                size = math.prod(of_layer[kind])
                out[kind][layer] = weights[start : start + size].reshape(of_layer[kind])
                start += size
    return out  # type: ignore[return-value]


def swap_lstm_gates(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Any:
    """The vector of weights with the blocks of cell and output gates exchanged: from the order `i, f, g, o` to `i, f, o, g`, and back.

    Libraries order the gates differently.

    Example:
        >>> import xlab.numpy as jnp
        >>> swap_lstm_gates(jnp.arange(16.0), 1, 1, 1, False).tolist()[:8]
        [0.0, 1.0, 3.0, 2.0, 4.0, 5.0, 7.0, 6.0]
    """
    parts = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)

    def swapped(w):
        i, f, g, o = jnp.split(w, 4)
        return jnp.concatenate([i, f, o, g]).reshape(-1)

    matrices, biases = parts[:2], parts[2:]
    return jnp.concatenate(
        [
            swapped(kind[layer])
            for kinds in (matrices, biases)
            for layer in kinds[0]
            for kind in kinds
        ]
    )


# -- the recurrence ---------------------------------------------------------------------------------------


def _shapes(input_size, hidden_size, num_layers, bidirectional) -> list[tuple]:
    """Per pseudo-layer the shapes of `W_ih, W_hh, b_ih, b_hh`."""
    directions, rows = 2 if bidirectional else 1, 4 * hidden_size
    out = []
    for layer in range(num_layers):
        width = input_size if layer == 0 else hidden_size * directions
        out += [((rows, width), (rows, hidden_size), (rows,), (rows,))] * directions
    return out


def _lstm(x, h_0, c_0, weights, seq_lengths, dropout, bidirectional, precision):
    if dropout != 0:
        raise ValueError(
            f"lstm takes dropout=0, got {dropout}: what is dropped has to be drawn with a key. Call it layer by layer (num_layers=1), and "
            f"multiply y by random.bernoulli(key, 1 - rate, y.shape) / (1 - rate) between the calls"
        )
    w_ih, w_hh, b_ih, b_hh = weights
    x, h_0, c_0, seq_lengths = map(jnp.asarray, (x, h_0, c_0, seq_lengths))
    directions, pseudo = 2 if bidirectional else 1, len(w_ih)
    width, hidden = w_ih[0].shape[1], w_hh[0].shape[1]
    if x.ndim != 3 or x.shape[2] != width:
        raise ValueError(
            f"lstm takes x of shape (batch, time, input_size={width}), got {x.shape}: the batch comes first"
        )
    state = (pseudo, x.shape[0], hidden)
    for name, given, wanted in (("h_0", h_0, state), ("c_0", c_0, state), ("seq_lengths", seq_lengths, state[1:2])):  # fmt: skip
        if given.shape != wanted:
            raise ValueError(
                f"lstm takes {name} of shape {wanted} for x of shape {x.shape}, got {given.shape}"
            )
    # Time first, as scan takes it.
    valid = jnp.arange(x.shape[1])[:, None, None] < seq_lengths[:, None]
    y, h_n, c_n = jnp.swapaxes(x, 0, 1), [], []
    for layer in range(0, pseudo, directions):
        outs = []
        for p in range(layer, layer + directions):
            # The inputs' part of all steps is one product.
            inputs = jnp.matmul(y, w_ih[p].T, precision=precision) + (b_ih[p] + b_hh[p])
            out, h, c = _scan(
                inputs, h_0[p], c_0[p], w_hh[p].T, valid, reverse=p > layer, precision=precision
            )
            outs.append(out)
            h_n.append(h)
            c_n.append(c)
        y = jnp.concatenate(outs, -1)
    return jnp.swapaxes(y, 0, 1), jnp.stack(h_n), jnp.stack(c_n)


def _scan(inputs, h, c, w_hh, valid, *, reverse: bool, precision):
    """One direction of one layer: its results, and its states after the last step that counts."""

    def step(carry, at):
        h, c = carry
        inputs, here = at
        i, f, g, o = jnp.split(inputs + jnp.matmul(h, w_hh, precision=precision), 4, -1)
        new_c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
        new_h = sigmoid(o) * jnp.tanh(new_c)
        # States that stay as they are let the reverse direction begin at each example's own last step.
        return (jnp.where(here, new_h, h), jnp.where(here, new_c, c)), jnp.where(here, new_h, 0)

    dtype = jnp.result_type(inputs, h, c, w_hh)
    (h, c), y = lax.scan(step, (h.astype(dtype), c.astype(dtype)), (inputs, valid), reverse=reverse)
    return y, h, c
