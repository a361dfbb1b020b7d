"""Samples of `experimental.rnn`. The reference's `lstm` runs on GPUs only, so that ours is held against its `lstm_ref`."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.data import floats
from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
SIZES = {1: (4, 2, 2, False), 2: (4, 2, 2, True)}  # by the number of directions
LENGTHS = np.int32([5, 3, 1])


def rnn(n):
    return import_module(f"{n.name}.experimental.rnn")


def by_layer(directions):
    sizes = SIZES[directions]

    def run(n, x, h, c, weights):
        parts = rnn(n).unpack_lstm_weights(weights, *sizes)
        return rnn(n).lstm_ref(x, h, c, *parts, LENGTHS, *sizes[:3], 0.0, sizes[3])

    return run


def packed(directions):
    def run(n, x, h, c, weights):
        if n.name == "jax":
            return by_layer(directions)(n, x, h, c, weights)
        return rnn(n).lstm(x, h, c, weights, LENGTHS, *SIZES[directions][:3], 0.0, directions == 2)

    return run


def arguments(directions):
    count = {1: 112, 2: 256}[directions]
    return [floats(3, 5, 4), *(floats(2 * directions, 3, 2, low=-1.5 - s) for s in (1, 2)), floats(count)]


SAMPLES = [
    *(Sample(f"{f.__name__}_{d}", f(d), arguments(d), ("jit", "jit.grad"), tol=1e-5) for f in (by_layer, packed) for d in (1, 2)),
    *(Sample(f"swapped_{d}", lambda n, w, d=d: rnn(n).swap_lstm_gates(w, *SIZES[d]), [arguments(d)[3]], ("jit",)) for d in (1, 2)),
    *(Sample(f"weights_{d}", lambda n, d=d: rnn(n).init_lstm_weight(n.random.key(3), *SIZES[d]), [], ("eager",)) for d in (1, 2)),
    Sample("count", lambda n: rnn(n).get_num_params_in_lstm(7, 5, 3, True), [], ("eager",)),
]
