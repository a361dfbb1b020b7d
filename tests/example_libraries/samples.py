"""Samples of `example_libraries`: optimizers after a few steps, and layers with the parameters of a key."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.data import floats
from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
PARAMS, GRADS = {"a": floats(3), "b": (floats(2, 3),)}, {"a": floats(3) - 0.3, "b": (floats(2, 3) + 0.2,)}


def optimizers(n):
    return import_module(f"{n.name}.example_libraries.optimizers")


def steps(name, *options, count=3):
    def run(n, params, grads):
        init, update, get = getattr(optimizers(n), name)(*options)
        state = init(params)
        for i in range(count):
            state = update(i, grads, state)
        return get(state)
    return run


def schedule(name, *options):
    return lambda n: [n.jnp.float32(getattr(optimizers(n), name)(*options)(i)) for i in (0, 3, 4, 20)]


def layer(make, shape, **options):
    """The shape that a layer says it has, its parameters, and its output."""
    def run(n):
        stax = import_module(f"{n.name}.example_libraries.stax")
        init, apply = make(stax)
        key = n.random.key(3)
        out, params = init(key, shape)
        x = n.jnp.arange(np.prod(shape), dtype=n.jnp.float32).reshape(shape) / 7 - 1
        return list(map(int, out)), params, apply(params, x, **({"rng": key} if options.get("rng") else {}))
    return run


IMAGE, ROWS = (2, 5, 4, 2), (2, 4)
LAYERS = {
    "dense": (lambda s: s.Dense(3), ROWS), "conv": (lambda s: s.Conv(3, (2, 2)), IMAGE), "conv_same": (lambda s: s.Conv(3, (2, 2), (2, 1), "SAME"), IMAGE),
    "conv_channels_first": (lambda s: s.GeneralConv(("NCHW", "OIHW", "NCHW"), 3, (2, 2)), (2, 2, 5, 4)),
    "conv_transpose": (lambda s: s.ConvTranspose(3, (2, 2), (2, 2)), IMAGE), "conv_1d_transpose": (lambda s: s.Conv1DTranspose(3, (2,), (2,), "SAME"), (2, 5, 2)),
    "batch_norm": (lambda s: s.BatchNorm(), IMAGE), "batch_norm_rows": (lambda s: s.BatchNorm(axis=0, center=False), ROWS),
    "max_pool": (lambda s: s.MaxPool((2, 2), (2, 2)), IMAGE), "sum_pool": (lambda s: s.SumPool((2, 2)), IMAGE),
    "avg_pool": (lambda s: s.AvgPool((2, 2), padding="SAME"), IMAGE), "max_pool_first": (lambda s: s.MaxPool((2, 2), spec="NCHW"), (2, 2, 5, 4)),
    "flatten": (lambda s: s.Flatten, IMAGE), "identity": (lambda s: s.Identity, ROWS),
    **{name.lower(): (lambda s, name=name: getattr(s, name), ROWS) for name in (
        "Tanh", "Relu", "Exp", "LogSoftmax", "Softmax", "Softplus", "Sigmoid", "Elu", "LeakyRelu", "Selu", "Gelu")},
    "serial": (lambda s: s.serial(s.Dense(3), s.Relu, s.Dense(2)), ROWS),
    "sum": (lambda s: s.serial(s.FanOut(2), s.parallel(s.Dense(3), s.Dense(3)), s.FanInSum), ROWS),
    "concat": (lambda s: s.serial(s.FanOut(2), s.parallel(s.Dense(3), s.Identity), s.FanInConcat()), ROWS),
    "shape_dependent": (lambda s: s.shape_dependent(lambda shape: s.Dense(shape[-1] + 1)), ROWS),
}


LAYERS |= {
    "conv_transpose_first": (lambda s: s.GeneralConvTranspose(("NCHW", "OIHW", "NCHW"), 3, (2, 2), (2, 2), "SAME"), (2, 2, 5, 4)),
    "elementwise": (lambda s: s.elementwise(lambda x, k: x * k + 1, k=3), ROWS),
    "logsoftmax": (lambda s: s.elementwise(s.logsoftmax, axis=0), ROWS),
    "initializers": (lambda s: s.Dense(3, s.glorot(), s.randn(0.5)), ROWS),
}


def joined(n, params):
    """What is between the states of two optimizers, and around them in one structure."""
    o = optimizers(n)
    state = o.unpack_optimizer_state(o.adam(0.1).init_fn(params))
    point = state["a"]
    return isinstance(point, o.JoinPoint), point.subtree, isinstance(o.adam(0.1), o.Optimizer), isinstance(o.adam(0.1).init_fn(params), o.OptimizerState)


def own(n, params, grads):
    """An optimizer of one's own, made by the decorator."""
    def make(size):
        return (lambda x: (x, 0 * x)), (lambda i, g, s: (s[0] - size * g / (i + 1), s[1] + g)), (lambda s: s[0] + s[1])
    init, update, get = optimizers(n).optimizer(make)(0.1)
    state = init(params)
    for i in range(3):
        state = update(i, grads, state)
    return get(state)


def dropout(s):
    return s.serial(s.Dense(3), s.Dropout(0.5), s.FanOut(2), s.parallel(s.Dropout(0.7), s.Identity), s.FanInSum)


SAMPLES = [
    *(Sample(name, steps(name, 0.1, *options), [PARAMS, GRADS], ("eager",), tol=1e-5) for name, options in [
        ("sgd", ()), ("momentum", (0.9,)), ("nesterov", (0.9,)), ("adagrad", ()), ("rmsprop", ()), ("rmsprop_momentum", ()), ("adam", ()),
        ("adamax", ()), ("sm3", ())]),
    Sample("own", own, [PARAMS, GRADS], ("eager", "jit"), tol=1e-5), Sample("joined", joined, [PARAMS], ("eager",)),
    Sample("adam_compiled", steps("adam", 0.1), [PARAMS, GRADS], ("jit",), tol=1e-5),
    Sample("scheduled", lambda n, p, g: steps("sgd", optimizers(n).exponential_decay(0.1, 10, 0.5))(n, p, g), [PARAMS, GRADS], ("eager",)),
    Sample("wrong_tree", lambda n, p: optimizers(n).sgd(0.1).update_fn(0, p["a"], optimizers(n).sgd(0.1).init_fn(p)), [PARAMS], error="TypeError"),
    *(Sample(name, schedule(name, *options), [], ("eager",)) for name, options in [
        ("constant", (0.1,)), ("exponential_decay", (0.1, 10, 0.5)), ("inverse_time_decay", (0.1, 10, 0.5)), ("polynomial_decay", (0.1, 10, 0.01, 2.0)),
        ("piecewise_constant", ([3, 6], [0.1, 0.2, 0.3])), ("make_schedule", (0.3,))]),
    Sample("staircase", schedule("inverse_time_decay", 0.1, 10, 0.5, True), [], ("eager",)),
    Sample("wrong_pieces", schedule("piecewise_constant", [1], [1]), [], error="ValueError"),
    Sample("wrong_rank", schedule("piecewise_constant", [[1]], [1, 2]), [], error="ValueError"),
    Sample("l2_norm", lambda n, g: optimizers(n).l2_norm(g), [GRADS], ("eager", "grad")),
    *(Sample(f"clip_grads_{norm}", lambda n, g, norm=norm: optimizers(n).clip_grads(g, norm), [GRADS], ("eager",)) for norm in (0.5, 50.0)),
    Sample("unpacked", lambda n, p: optimizers(n).adam(0.1).params_fn(optimizers(n).pack_optimizer_state(optimizers(n).unpack_optimizer_state(optimizers(n).adam(0.1).init_fn(p)))),
           [PARAMS], ("eager",)),
    *(Sample(f"layer_{name}", layer(make, shape), [], ("eager",), tol=1e-4) for name, (make, shape) in LAYERS.items()),
    Sample("layer_dropout", layer(dropout, ROWS, rng=True), [], ("eager",), tol=1e-4),
    Sample("dropout_without_key", layer(lambda s: s.Dropout(0.5), ROWS), [], error="ValueError"),
]
