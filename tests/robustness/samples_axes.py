"""Axes, sizes and argument numbers in every form that a sequence of integers, or one integer, may have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.reference.sample import Sample
from tests.robustness.samples_drawn import Raised

COMPARED_IN = "tests/robustness/test_axes.py"


class Row(Sequence):
    """A sequence that is neither a list nor a tuple."""

    def __init__(self, values):
        self.values = tuple(values)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, i):
        return self.values[i]


SEVERAL = {"tuple": tuple, "list": list, "range": lambda t: range(t[0], t[-1] + 1, max(t[-1] - t[0], 1)), "array": np.array,
           "numpy": lambda t: tuple(map(np.int64, t)), "sequence": Row}
ONE = {"int": int, "int64": np.int64, "int8": np.int8, "array": np.array}
X = np.float32(np.arange(24).reshape(2, 3, 4))
CUBE = np.float32(np.arange(27).reshape(3, 3, 3))

# name: (function of the namespaces and the axes or sizes, several of them, one of them)
FUNCTIONS: dict = {
    **{name: (lambda n, a, name=name: getattr(n.jnp, name)(X, axis=a), (0, 1), 1) for name in (
        "sum", "prod", "max", "min", "mean", "std", "var", "any", "all", "nansum", "nanmax", "nanmean", "median", "flip", "expand_dims",
        "count_nonzero", "average", "ptp", "size")},
    **{name: (lambda n, a, name=name: getattr(n.jnp, name)(X, axis=a), None, 1) for name in (
        "argmax", "argmin", "sort", "argsort", "cumsum", "cumprod", "diff", "unwrap", "trapezoid")},
    **{name: (lambda n, s, name=name: getattr(n.jnp, name)(s), (2, 3), 3) for name in ("zeros", "ones", "empty")},
    **{name: (lambda n, s, name=name: getattr(n.random, name)(n.random.key(0), shape=s), (2, 3), 3)
       for name in ("normal", "uniform", "bits", "gumbel")},
    **{name: (lambda n, a, name=name: getattr(n.jax, name)(lambda x, y: x * y, a)(1.0, 2.0), (0, 1), one)
       for name, one in (("grad", 1), ("value_and_grad", 1), ("jacfwd", 1), ("jacrev", None), ("hessian", None))},
    "squeeze": (lambda n, a: n.jnp.squeeze(n.jnp.ones((1, 1, 3)), a), (0, 1), 1),
    "logsumexp": (lambda n, a: n.nn.logsumexp(X, axis=a), (0, 1), 1),
    "softmax": (lambda n, a: n.nn.softmax(X, axis=a), (0, 1), 1),
    "roll": (lambda n, a: n.jnp.roll(X, 1, a), (0, 1), 1),
    "roll_by": (lambda n, s: n.jnp.roll(X, s, (0, 1)), (1, 2), 1),
    "roll_by_one_of": (lambda n, s: n.jnp.roll(X, [s], (0, 1)), None, 1),
    "transpose": (lambda n, a: n.jnp.transpose(X[0], a), (0, 1), None),
    "transpose_of_array": (lambda n, a: n.jnp.asarray(X[0]).transpose(a), (0, 1), None),
    "permute_dims": (lambda n, a: n.jnp.permute_dims(X[0], a), (0, 1), None),
    "moveaxis": (lambda n, a: n.jnp.moveaxis(X, a, (1, 2)), (0, 1), None),
    "rot90": (lambda n, a: n.jnp.rot90(X, axes=a), (0, 1), None),
    "tensordot": (lambda n, a: n.jnp.tensordot(X, X, axes=(a, a)), (0, 1), 1),
    "gradient": (lambda n, a: n.jnp.gradient(CUBE, axis=a), (0, 1), 1),
    "fftn": (lambda n, a: n.jnp.fft.fftn(X, axes=a), (0, 1), None),
    "reshape": (lambda n, s: n.jnp.reshape(X, s), (2, 12), 24),
    "reshape_of_array": (lambda n, s: n.jnp.asarray(X).reshape(s), (2, 12), 24),
    "broadcast_to": (lambda n, s: n.jnp.broadcast_to(np.zeros(12, np.float32), s), (2, 12), 12),
    "resize": (lambda n, s: n.jnp.resize(X, s), (2, 3), 3),
    "tile": (lambda n, s: n.jnp.tile(X[0, 0], s), (2, 3), 3),
    "full": (lambda n, s: n.jnp.full(s, 1.0), (2, 3), 3),
    "zeros_like": (lambda n, s: n.jnp.zeros_like(X, shape=s), (2, 3), 3),
    "indices": (lambda n, s: n.jnp.indices(s), (2, 3), None),
    "broadcast_shapes": (lambda n, s: n.jnp.zeros(n.jnp.broadcast_shapes(s, (2, 1))), (2, 3), 3),
    "split_keys": (lambda n, s: n.random.split(n.random.key(0), s), (2, 3), 3),
    "lax_reshape": (lambda n, s: n.lax.reshape(X, s), (2, 12), None),
    "lax_transpose": (lambda n, a: n.lax.transpose(X[0], a), (0, 1), None),
    "lax_expand_dims": (lambda n, a: n.lax.expand_dims(X, a), (0, 1), None),
    "lax_reduce_sum": (lambda n, a: n.lax.reduce_sum(n.jnp.asarray(X), a), (0, 1), None),
    "lax_rev": (lambda n, a: n.lax.rev(X, a), (0, 1), None),
    "lax_broadcast": (lambda n, s: n.lax.broadcast(X, s), (2, 3), None),
    "lax_broadcasted_iota": (lambda n, s: n.lax.broadcasted_iota(np.int32, s, 0), (2, 3), None),
    "static_argnums": (lambda n, a: n.jax.jit(lambda x, y: n.jnp.zeros(2) + x * y, static_argnums=a)(2, 3), (0, 1), 1),
}


def every_form(name):
    function, several, one = FUNCTIONS[name]

    def run(n):
        given = [*(() if several is None else (make(several) for make in SEVERAL.values())), *(() if one is None else (make(one) for make in ONE.values()))]
        return [attempt(function, n, form) for form in given]
    return run


def attempt(function, n, form):
    try:
        return n.jax.tree.map(n.jnp.asarray, function(n, form))
    except Exception as error:
        return Raised(f"{type(error).__name__}: {error}")


SAMPLES = [Sample(name, every_form(name), [], ("eager",)) for name in FUNCTIONS]
