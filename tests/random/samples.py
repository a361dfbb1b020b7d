"""Samples of `random`: bits, integers and permutations equal to the last bit, floats to one ulp."""

from __future__ import annotations

import numpy as np

from tests.reference.data import floats, ints
from tests.reference.sample import Sample

SEED = np.int32(42)
WAYS = ("eager", "jit", "vmap")         # the seed is an argument, so the key itself is traced and mapped
ULP = (3e-7, 1e-7)


def draw(name, *args, **options):
    return lambda n, seed: getattr(n.random, name)(n.random.key(seed), *args, **options)


def raw(name, *args, **options):
    return lambda n, seed: getattr(n.random, name)(n.random.PRNGKey(seed), *args, **options)


KEYS = [
    Sample("key", lambda n, s: n.random.key(s), [SEED], WAYS),
    Sample("PRNGKey", lambda n, s: n.random.PRNGKey(s), [SEED], WAYS),
    Sample("key_python", lambda n: n.random.key(2**40 + 3), [], ("eager", "jit")),
    Sample("key_negative", lambda n, s: n.random.key(s), [np.int32(-1)], WAYS),
    Sample("key_data", lambda n, s: n.random.key_data(n.random.key(s)), [SEED], WAYS),
    Sample("wrap_key_data", lambda n, d: n.random.wrap_key_data(d), [np.uint32([1, 2])], ("eager", "jit")),
    Sample("split", draw("split"), [SEED], WAYS),
    Sample("split_five", draw("split", 5), [SEED], WAYS),
    Sample("split_shape", draw("split", (2, 3)), [SEED], WAYS),
    Sample("split_raw", raw("split", 3), [SEED], WAYS),
    Sample("split_of_keys", lambda n, s: [n.random.key_data(k) for k in n.jnp.array_split(n.random.split(n.random.key(s), 5), 2)],
           [SEED], WAYS),
    Sample("split_index", lambda n, s: n.random.uniform(n.random.split(n.random.key(s), 3)[1]), [SEED], WAYS),
    Sample("fold_in", lambda n, s, i: n.random.fold_in(n.random.key(s), i), [SEED, np.int32(7)], WAYS),
    Sample("fold_in_raw", lambda n, s, i: n.random.fold_in(n.random.PRNGKey(s), i), [SEED, np.int32(7)], WAYS),
    Sample("vmap_keys", lambda n, s: n.jax.vmap(lambda k: n.random.normal(k, (2,)))(
        n.random.split(n.random.key(s), 3)), [SEED], WAYS, tol=ULP),
]

BITS = [
    Sample("bits", draw("bits", (5,)), [SEED], WAYS),
    Sample("bits_odd", draw("bits", (3, 7)), [SEED], WAYS),
    Sample("bits_scalar", draw("bits"), [SEED], WAYS),
    Sample("bits_8", draw("bits", (6,), np.uint8), [SEED], WAYS),
    Sample("bits_16", draw("bits", (6,), np.uint16), [SEED], WAYS),
    Sample("bits_raw", raw("bits", (5,)), [SEED], WAYS),
    Sample("bits_64", draw("bits", (5,), np.uint64), [SEED], ("eager", "jit"), x64=True),
    Sample("bits_empty", draw("bits", (0, 3)), [SEED], WAYS),
    Sample("randint", draw("randint", (8,), 0, 10), [SEED], WAYS),
    Sample("randint_negative", draw("randint", (2, 3), -1000, 2**30), [SEED], WAYS),
    Sample("randint_uint8", draw("randint", (9,), 0, 256, np.uint8), [SEED], WAYS),
    Sample("randint_arrays", lambda n, s, lo: n.random.randint(n.random.key(s), (4,), lo, lo + 5),
           [SEED, ints(4)], WAYS),
    Sample("permutation", draw("permutation", 11), [SEED], WAYS),
    Sample("permutation_array", lambda n, s, x: n.random.permutation(n.random.key(s), x), [SEED, floats(5, 2)], WAYS),
    Sample("permutation_axis", lambda n, s, x: n.random.permutation(n.random.key(s), x, axis=1), [SEED, floats(2, 5)],
           WAYS),
    Sample("permutation_independent", lambda n, s, x: n.random.permutation(
        n.random.key(s), x, axis=1, independent=True), [SEED, floats(3, 4)], WAYS),
    Sample("bernoulli", draw("bernoulli", 0.3, (9,)), [SEED], WAYS),
    Sample("bernoulli_arrays", lambda n, s, p: n.random.bernoulli(n.random.key(s), p),
           [SEED, floats(6, low=0, high=1)], WAYS),
    Sample("categorical", lambda n, s, x: n.random.categorical(n.random.key(s), x), [SEED, floats(4, 5)], WAYS),
    Sample("categorical_shape", lambda n, s, x: n.random.categorical(n.random.key(s), x, shape=(7,)),
           [SEED, floats(5)], WAYS),
    Sample("choice", draw("choice", 10, (4,)), [SEED], WAYS),
    Sample("choice_distinct", draw("choice", 10, (4,), replace=False), [SEED], WAYS),
    Sample("choice_weights", lambda n, s, x, p: n.random.choice(n.random.key(s), x, (4,), p=p),
           [SEED, floats(3), np.float32([0.2, 0.5, 0.3])], ("eager", "jit")),
]

FLOATS = [
    Sample("uniform", draw("uniform", (7,)), [SEED], WAYS, tol=ULP),
    Sample("uniform_interval", draw("uniform", (3, 2), minval=-2.0, maxval=5.0), [SEED], WAYS, tol=ULP),
    Sample("uniform_bfloat16", draw("uniform", (7,), "bfloat16"), [SEED], WAYS),
    Sample("uniform_float16", draw("uniform", (7,), np.float16), [SEED], WAYS),
    Sample("uniform_raw", raw("uniform", (7,)), [SEED], WAYS, tol=ULP),
    Sample("uniform_float64", draw("uniform", (5,), np.float64), [SEED], ("eager", "jit"), x64=True),
    Sample("normal", draw("normal", (7,)), [SEED], WAYS, tol=ULP),
    Sample("normal_bfloat16", draw("normal", (7,), "bfloat16"), [SEED], WAYS),
    Sample("normal_complex", draw("normal", (3,), np.complex64), [SEED], WAYS, tol=ULP),
    Sample("normal_large", draw("normal", (1000,)), [SEED], ("eager", "jit"), tol=ULP),
    Sample("truncated_normal", draw("truncated_normal", -1.0, 2.0, (7,)), [SEED], WAYS, tol=(1e-6, 1e-6)),
    Sample("exponential", draw("exponential", (6,)), [SEED], WAYS, tol=ULP),
    Sample("gumbel", draw("gumbel", (6,)), [SEED], WAYS, tol=(1e-6, 1e-6)),
    Sample("dropout", lambda n, s, x: n.jnp.where(n.random.bernoulli(n.random.key(s), 0.5, x.shape), x * 2, 0.0),
           [SEED, floats(3, 4)], (*WAYS, "grad")),
    Sample("reparametrized", lambda n, s, m: m + n.random.normal(n.random.key(s), m.shape) * m,
           [SEED, floats(4)], (*WAYS, "grad", "jvp")),
]

ALPHA = np.float32([0.1, 0.7, 1.0, 2.5, 30.0, 1000.0])
RATES = np.float32([0.0, 0.1, 2.5, 9.9, 10.0, 50.0, 1e6])


def shaped(name, *params, **options):
    """A draw whose parameters are arguments: they are traced, mapped and differentiated."""
    return Sample(name, lambda n, s, *xs: getattr(n.random, name)(n.random.key(s), *xs, **options), [SEED, *params],
                  ("eager", "jit"), tol=ULP)


MORE = [
    *(Sample(name, draw(name, (20,)), [SEED], WAYS, tol=ULP)
      for name in ("laplace", "logistic", "cauchy", "maxwell", "rademacher")),
    Sample("gumbel_high", draw("gumbel", (6,), mode="high"), [SEED], WAYS, tol=ULP),
    Sample("bernoulli_high", draw("bernoulli", 0.3, (9,), mode="high"), [SEED], WAYS),
    Sample("weibull_min", draw("weibull_min", 1.0, 2.0, (9,)), [SEED], WAYS, tol=ULP),
    Sample("double_sided_maxwell", draw("double_sided_maxwell", 1.0, 2.0, (9,)), [SEED], WAYS, tol=ULP),
    Sample("generalized_normal", draw("generalized_normal", 3.0, (5,)), [SEED], WAYS, tol=ULP),
    Sample("ball", draw("ball", 3, shape=(4,)), [SEED], WAYS, tol=ULP),
    Sample("permutation_long", draw("permutation", 3000), [SEED], ("eager",)),
    Sample("randint_whole", draw("randint", (9,), -2**31, np.uint32(2**31)), [SEED], ("eager", "jit")),
    Sample("categorical_distinct", lambda n, s, x: n.random.categorical(
        n.random.key(s), x, shape=(2, 4), replace=False), [SEED, floats(4, 5)], WAYS),
    Sample("rbg_bits", lambda n, s: n.random.bits(n.random.key(s, impl="rbg"), (5,)), [SEED], WAYS,
           lawful=False),    # a batch draws one block from its first key, as documented
    Sample("rbg_split", lambda n, s: n.random.key_data(n.random.split(n.random.key(s, impl="rbg"))), [SEED], WAYS),
    Sample("unsafe_rbg_fold_in", lambda n, s: n.random.key_data(n.random.fold_in(
        n.random.key(s, impl="unsafe_rbg"), 5)), [SEED], WAYS),
    *(shaped(name, ALPHA) for name in ("gamma", "loggamma", "chisquare", "t", "dirichlet", "pareto", "rayleigh", "wald")),
    shaped("beta", ALPHA, ALPHA[::-1].copy()),
    shaped("f", ALPHA, ALPHA),
    shaped("poisson", RATES),
    shaped("geometric", np.full(9, 0.2, np.float32)),
    Sample("gamma_slope", lambda n, s, a: n.jax.jvp(lambda a: n.random.gamma(n.random.key(s), a), (a,), (a,)),
           [SEED, ALPHA], ("eager", "jit"), tol=(2e-5, 1e-6), lawful=False),
]

ERRORS = [
    Sample("key_float", lambda n: n.random.key(1.5), [], error="TypeError"),
    Sample("key_as_seed", lambda n: n.random.key(n.random.key(1)), [], error="TypeError"),
    Sample("not_a_key", lambda n: n.random.uniform(np.float32([1, 2])), [], error="TypeError"),
    Sample("keys_for_one", lambda n: n.random.uniform(n.random.split(n.random.key(0), 3)), [], error="ValueError"),
    Sample("uniform_int", draw("uniform", (3,), np.int32), [SEED], error="ValueError"),
    Sample("add_keys", lambda n: n.random.key(0) + 1, [], error="TypeError"),
    Sample("choice_too_many", draw("choice", 3, (4,), replace=False), [SEED], error="ValueError"),
]

SAMPLES = [*KEYS, *BITS, *FLOATS, *MORE, *ERRORS]
