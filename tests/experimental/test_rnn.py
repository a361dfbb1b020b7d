"""The LSTM against a model of one cell in NumPy, and what it says of bad input."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.experimental import rnn

B, T, I, H = 2, 4, 3, 2
DRAWN = np.random.RandomState(0)
X = DRAWN.randn(B, T, I).astype(np.float32)


def weights(layers=1, bidirectional=False):
    return rnn.init_lstm_weight(xlab.random.key(1), I, H, layers, bidirectional)


def zeros(pseudo=1):
    return np.zeros((pseudo, B, H), np.float32)


def cell(x, h, c, w_ih, w_hh, b_ih, b_hh):
    """One step for one example."""
    sigmoid = lambda a: 1 / (1 + np.exp(-a))
    i, f, g, o = np.split(w_ih @ x + b_ih + w_hh @ h + b_hh, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def test_both_directions_are_cells_one_after_the_other():
    lengths = [4, 2]
    w = weights(bidirectional=True)
    h0, c0 = DRAWN.randn(2, 2, B, H).astype(np.float32)
    y, h_n, c_n = rnn.lstm(X, h0, c0, w, np.int32(lengths), I, H, 1, 0.0, True)
    parts = [list(map(np.asarray, d.values())) for d in rnn.unpack_lstm_weights(w, I, H, 1, True)]
    expected = np.zeros((B, T, 2 * H), np.float32)
    for p, order in enumerate((lambda n: range(n), lambda n: reversed(range(n)))):
        for b, length in enumerate(lengths):
            h, c = h0[p, b], c0[p, b]
            for t in order(length):
                h, c = cell(X[b, t], h, c, *(kind[p] for kind in parts))
                expected[b, t, p * H : (p + 1) * H] = h
            np.testing.assert_allclose(h_n[p, b], h, rtol=1e-5)
            np.testing.assert_allclose(c_n[p, b], c, rtol=1e-5)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-7)


def test_layers_are_calls_one_after_the_other():
    w, full = weights(2), np.full(B, T)
    y, h_n, c_n = rnn.lstm(X, zeros(2), zeros(2), w, full, I, H, 2, 0.0, False)
    first, second = (
        [d[k][None] for d in rnn.unpack_lstm_weights(w, I, H, 2, False)] for k in (0, 1)
    )
    one = lambda x, parts, size: rnn.lstm_ref(
        x, zeros(), zeros(), *({0: p[0]} for p in parts), full, size, H, 1, 0.0, False
    )
    middle, h_1, _ = one(X, first, I)
    top, h_2, c_2 = one(middle, second, H)
    np.testing.assert_allclose(y, top, rtol=1e-5)
    np.testing.assert_allclose(h_n, jnp.concatenate([h_1, h_2]), rtol=1e-5)
    np.testing.assert_allclose(c_n[1:], c_2, rtol=1e-5)


def test_steps_that_do_not_count_have_no_gradient_and_exchanging_gates_twice_is_nothing():
    w = weights(2, True)

    def total(x):
        y, h_n, c_n = rnn.lstm(x, zeros(4), zeros(4), w, np.int32([3, 1]), I, H, 2, 0.0, True)
        return y.sum() + h_n.sum() + c_n.sum()

    g = np.asarray(xlab.grad(total)(X))
    assert (g[0, 3:] == 0).all() and (g[1, 1:] == 0).all() and (g[0, :3] != 0).all()
    twice = rnn.swap_lstm_gates(rnn.swap_lstm_gates(w, I, H, 2, True), I, H, 2, True)
    np.testing.assert_array_equal(twice, w)


def test_dtypes_follow_the_operands():
    with xlab.enable_x64(True):
        y, h_n, _ = rnn.lstm(
            X.astype(np.float64), zeros(), zeros(), weights(), [T, T], I, H, 1, 0, False
        )
    assert y.dtype == h_n.dtype == np.float64
    half = jnp.bfloat16
    y, *_ = rnn.lstm(
        *(v.astype(half) for v in (X, zeros(), zeros(), weights())), [T, T], I, H, 1, 0, False
    )
    assert y.dtype == half


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"x": X[0]}, r"x of shape \(batch, time, input_size=3\), got \(4, 3\)"),
        ({"x": X[..., :2]}, r"input_size=3\), got \(2, 4, 2\)"),
        ({"h_0": zeros(2)}, r"h_0 of shape \(1, 2, 2\).*got \(2, 2, 2\)"),
        ({"c_0": zeros()[0]}, r"c_0 of shape \(1, 2, 2\).*got \(2, 2\)"),
        ({"seq_lengths": [3]}, r"seq_lengths of shape \(2,\).*got \(1,\)"),
        ({"weights": np.zeros(5)}, r"are a vector of 56, got the shape \(5,\): init_lstm_weight makes one"),
        ({"dropout": 0.5}, r"dropout=0, got 0.5.*random.bernoulli"),
    ],
)  # fmt: skip
def test_bad_input(change, said):
    given = {"x": X, "h_0": zeros(), "c_0": zeros(), "weights": weights(), "seq_lengths": [T, T]}
    sizes = {
        "input_size": I,
        "hidden_size": H,
        "num_layers": 1,
        "dropout": 0.0,
        "bidirectional": False,
    }
    with pytest.raises(ValueError, match=said):
        rnn.lstm(**{**given, **sizes, **change})
    with pytest.raises(ValueError, match=r"W_hh\[0\] has to be of shape \(8, 2\), got \(2, 2\)"):
        parts = [dict(d) for d in rnn.unpack_lstm_weights(weights(), I, H, 1, False)]
        parts[1][0] = np.zeros((2, 2))
        rnn.lstm_ref(X, zeros(), zeros(), *parts, [T, T], I, H, 1, 0.0, False)
