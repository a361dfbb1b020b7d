"""Samples of `nn`: every activation, softmax with masks, attention with its options."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.reference.data import BF16, bools, floats, ints
from tests.reference.sample import ALL, VALUE, WHOLE, Sample

X, H = floats(3, 4), floats(3, 4, dtype=BF16)
Q, K = floats(2, 3, 4, 8), floats(2, 5, 2, 8)


def do(text):
    """A function of `x, y, z` given as the text of its body."""
    code = compile(text, text, "eval")

    def fun(n, *args):
        return eval(code, {"np": np, "jnp": n.jnp, "nn": n.nn, "lax": n.lax, **dict(zip("xyz", args))})
    return fun


ACTIVATIONS = ("relu", "relu6", "gelu", "silu", "swish", "sigmoid", "softplus", "log_sigmoid", "soft_sign", "hard_tanh", "hard_sigmoid",
               "hard_silu", "hard_swish", "mish", "sparse_plus", "sparse_sigmoid", "elu", "selu", "celu", "leaky_relu", "squareplus",
               "tanh", "glu", "softmax", "log_softmax", "logsumexp", "logmeanexp", "standardize", "identity")
# Their kinks are at points where a difference quotient has another opinion.
SAMPLES = [
    *(Sample(name, do(f"nn.{name}(x)"), [X], ALL, tol=(1e-4, 1e-5)) for name in ACTIVATIONS),
    *(Sample(f"{name} bfloat16", do(f"nn.{name}(x)"), [H], WHOLE) for name in ACTIVATIONS if name not in ("identity", "standardize")),
    *(Sample(f"{name} number", do(f"nn.{name}(x)"), [0.5], VALUE) for name in ("relu", "gelu", "silu", "sigmoid", "softplus", "elu")),
    *(Sample(text, do(text), list(args), transforms, tol=(1e-4, 1e-5), lawful=False) for transforms, text, *args in [
        (("eager", "grad"), "nn.relu(x)", np.float32([0, -1, 1])),
        (("eager", "grad"), "nn.relu6(x)", np.float32([0, 6, 7, 3])),
        (("eager", "grad", "jvp"), "nn.log1mexp(x)", np.float32([0.1, 1, 5])),
        (("eager", "grad"), "nn.softplus(x)", np.float32([-np.inf, 100, -100, 0])),
        *((("eager",), f"nn.{name}(x)", x) for name in ("relu", "relu6", "elu", "celu", "selu")
          for x in (ints(4), np.array([True, False]), 2, True)), *((("eager",), f"nn.{name}(x)", np.complex64([-2, 1j])) for name in ("elu", "selu")),
        (ALL, "nn.gelu(x, approximate=False)", X),
        (WHOLE, "nn.relu(x)", ints(4)), (WHOLE, "nn.gelu(x)", ints(4)), (WHOLE, "nn.leaky_relu(x)", ints(4)),
        (ALL, "nn.elu(x, 0.5)", X), (ALL, "nn.celu(x, 0.5)", X), (ALL, "nn.leaky_relu(x, 0.2)", X), (ALL, "nn.squareplus(x, 2)", X),
        (ALL, "nn.softmax(x, axis=0)", X), (ALL, "nn.softmax(x, axis=(0, 1))", X), (ALL, "nn.softmax(x, where=y)", X, bools(3, 4)),
        (WHOLE, "nn.log_softmax(x, where=y)", X, bools(3, 4)), (ALL, "nn.logsumexp(x, axis=1, keepdims=True)", X),
        (ALL, "nn.logsumexp(x, axis=1, b=y)", X, floats(3, 4, low=0.1)), (WHOLE, "nn.logsumexp(x, axis=1, b=x, return_sign=True)", X),
        (WHOLE, "nn.logsumexp(x, where=y)", X, bools(3, 4)), (WHOLE, "nn.logsumexp(x)", np.float32([-np.inf, -np.inf])),
        (WHOLE, "nn.logsumexp(x)", ints(3)), (WHOLE, "nn.logsumexp(x, axis=0, return_sign=True)", X),
        (ALL, "nn.logmeanexp(x, axis=1)", X), (WHOLE, "nn.logmeanexp(x, where=y)", X, bools(3, 4)),
        (ALL, "nn.standardize(x, axis=0, epsilon=1e-3)", X), (WHOLE, "nn.standardize(x, mean=0.5, variance=2.0)", X),
        (WHOLE, "nn.glu(x, axis=1)", X), (VALUE, "nn.one_hot(x, 4)", ints(2, 3)), (VALUE, "nn.one_hot(x, 4, axis=0)", ints(2, 3)),
        (VALUE, "nn.one_hot(x, 4, dtype=jnp.bfloat16)", ints(3)), (VALUE, "nn.one_hot(x, 4, axis=1)", ints(2, 3)),
        (ALL, "nn.dot_product_attention(x, y, y)", Q, K), (WHOLE, "nn.dot_product_attention(x, x, x, is_causal=True)", Q),
        (WHOLE, "nn.dot_product_attention(x, y, y, mask=z)", Q, K, bools(2, 4, 3, 5)), (WHOLE, "nn.dot_product_attention(x, y, y, bias=z)", Q, K, floats(2, 4, 3, 5)),
        (WHOLE, "nn.dot_product_attention(x, y, y, scale=0.3)", Q, K), (VALUE, "nn.dot_product_attention(x[0], y[0], y[0])", Q, K),
        (VALUE, "nn.dot_product_attention(x, y, y, key_value_seq_lengths=np.int32([3, 5]))", Q, K),
        (VALUE, "nn.dot_product_attention(x, x, x, query_seq_lengths=np.int32([2, 3]), key_value_seq_lengths=np.int32([2, 3]))", Q),
        (VALUE, "nn.dot_product_attention(x, x, x, local_window_size=(1, 0))", Q), (VALUE, "nn.dot_product_attention(x, x, x)", Q.astype(BF16))]),
    *(Sample(f"error: {text}", do(text), list(args), error=error) for error, text, *args in [
        ("TypeError", "nn.relu([1.0])"), ("ValueError", "nn.dot_product_attention(x, y, y)", Q, Q[..., :4]), ("TypeError", "nn.softmax([1.0])"),
        ("TypeError", "nn.silu(x)", ints(4)), ("TypeError", "nn.one_hot(x, 2.5)", ints(3)), ("ValueError", "nn.softmax(x, axis=5)", X)]),
]
SAMPLES = [replace(sample, name=f"{i} {sample.name}", smooth=False) for i, sample in enumerate(SAMPLES)]
