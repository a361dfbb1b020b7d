"""Whole programs as tutorials of the field write them: `jax` is the module under test, numbers are compared."""

from __future__ import annotations

import functools
from importlib import import_module

import numpy as np

from tests.reference.data import floats
from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
PROGRAMS = []
BATCH, TARGETS = floats(16, 4), floats(16, 2)


def program(*args, tol=1e-3):
    """Adds a function of the namespaces (and these arguments) to the table."""
    return lambda fun: PROGRAMS.append(Sample(fun.__name__, fun, list(args), ("eager",), tol=tol)) or fun


def dense(n, key, *sizes):
    keys = n.random.split(key, len(sizes) - 1)
    return [{"w": n.random.normal(k, (a, b)) / np.sqrt(a), "b": n.jnp.zeros(b)} for k, a, b in zip(keys, sizes, sizes[1:])]


def mlp(n, params, x):
    *hidden, last = params
    for layer in hidden:
        x = n.nn.relu(x @ layer["w"] + layer["b"])
    return x @ last["w"] + last["b"]


def mesh(n, shape, names):
    return n.jax.make_mesh(shape, names, axis_types=(n.jax.sharding.AxisType.Auto,) * len(names))


@program(BATCH, TARGETS)
def mlp_trained_with_momentum(n, x, y):
    jax = n.jax

    def loss(params):
        return n.jnp.mean((mlp(n, params, x) - y) ** 2)

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(params, speed):
        value, slopes = jax.value_and_grad(loss)(params)
        speed = jax.tree.map(lambda v, g: 0.9 * v + g, speed, slopes)
        return jax.tree.map(lambda p, v: p - 0.05 * v, params, speed), speed, value
    params = dense(n, n.random.key(0), 4, 8, 2)
    speed = jax.tree.map(n.jnp.zeros_like, params)
    losses = []
    for _ in range(3):
        params, speed, value = step(params, speed)
        losses.append(value)
    return params, losses


@program(floats(2, 8, 8, 3), floats(3, 3, 3, 4), floats(64, 5))
def convolutional_network(n, x, kernel, head):
    def loss(kernel, head):
        y = n.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        y = n.lax.reduce_window(n.nn.relu(y), -np.inf, n.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        logits = y.reshape(2, -1) @ head
        return -n.jnp.mean(n.nn.log_softmax(logits)[n.jnp.arange(2), n.jnp.array([1, 3])])
    return n.jax.jit(n.jax.value_and_grad(loss, argnums=(0, 1)))(kernel, head)


@program(floats(6, 2, 3), floats(3, 5), floats(5, 5))
def recurrent_network(n, xs, w, u):
    def cell(h, x):
        h = n.jnp.tanh(x @ w + h @ u)
        return h, h
    return n.jax.grad(lambda w: n.lax.scan(cell, n.jnp.zeros((2, 5)), xs)[1].sum())(w), n.lax.scan(
        n.jax.checkpoint(cell), n.jnp.zeros((2, 5)), xs, reverse=True)[0]


@program(floats(2, 6, 8), floats(8, 24), floats(8, 8))
def attention_block(n, x, wide, out):
    def block(x):
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        q, k, v = n.jnp.split(((x - mean) * n.lax.rsqrt(var + 1e-5)) @ wide, 3, axis=-1)
        heads = [a.reshape(2, 6, 2, 4) for a in (q, k, v)]
        y = n.nn.dot_product_attention(*heads, is_causal=True)
        return x + n.nn.gelu(y.reshape(2, 6, 8) @ out)
    return n.jax.jit(block)(x), n.jax.grad(lambda x: block(x).sum())(x)


@program(BATCH)
def variational_autoencoder(n, x):
    encoder, decoder = dense(n, n.random.key(1), 4, 6), dense(n, n.random.key(2), 3, 4)

    def loss(params, key):
        mean, log = n.jnp.split(mlp(n, params[0], x), 2, -1)
        z = mean + n.jnp.exp(0.5 * log) * n.random.normal(key, mean.shape)
        kl = -0.5 * n.jnp.sum(1 + log - mean**2 - n.jnp.exp(log))
        return n.jnp.sum((mlp(n, params[1], z) - x) ** 2) + kl
    return n.jax.jit(n.jax.value_and_grad(loss))((encoder, decoder), n.random.fold_in(n.random.key(0), 3))


@program()
def metropolis_chains(n):
    def chain(key):
        def body(i, state):
            x, key, count = state
            key, move, accept = n.random.split(key, 3)
            new = x + 0.5 * n.random.normal(move, x.shape)
            take = n.jnp.log(n.random.uniform(accept)) < 0.5 * (n.jnp.sum(x**2) - n.jnp.sum(new**2))
            return n.jnp.where(take, new, x), key, count + take
        x, _, count = n.lax.fori_loop(0, 10, body, (n.jnp.zeros(2), key, 0))
        return x, count
    return n.jax.vmap(chain)(n.random.split(n.random.key(7), 3))


@program(floats(3), np.float32(0.7))
def adaptive_loop(n, x, rate):
    @n.jax.jit
    def solve(x, rate):
        return n.lax.while_loop(lambda s: (n.jnp.abs(s[0]).max() > 1e-2) & (s[1] < 50), lambda s: (s[0] * rate, s[1] + 1), (x, 0))
    return solve(x, rate), n.jax.jvp(lambda r: solve(x, r)[0], (rate,), (np.float32(1),))


@program(floats(3), np.float32(0.4))
def ordinary_differential_equation(n, y0, a):
    def flow(y, a, h):
        return y + h * (-a * y + n.jnp.sin(y))

    @n.jax.custom_vjp
    def solve(y0, a):
        return n.lax.fori_loop(0, 8, lambda i, y: flow(y, a, 0.1), y0)

    def forward(y0, a):
        def step(y, _):
            return flow(y, a, 0.1), y
        y, trail = n.lax.scan(step, y0, length=8)
        return y, (trail, a)

    def backward(kept, ct):
        trail, a = kept

        def step(state, y):
            ct, da = state
            ct, more = n.jax.vjp(lambda y, a: flow(y, a, 0.1), y, a)[1](ct)
            return (ct, da + more), None
        return n.lax.scan(step, (ct, n.jnp.zeros_like(a)), trail, reverse=True)[0]
    solve.defvjp(forward, backward)
    return solve(y0, a), n.jax.jit(n.jax.grad(lambda y, a: solve(y, a).sum(), (0, 1)))(y0, a)


@program(floats(8))
def kalman_filter_in_parallel(n, ys):
    def combine(one, other):
        (a, b), (c, d) = one, other
        return c * a, c * b + d
    gains = n.jnp.full(8, 0.8)
    return n.lax.associative_scan(combine, (gains, 0.2 * ys)), n.lax.associative_scan(n.jnp.maximum, ys, reverse=True)


@program(np.float32(2.0))
def implicit_root(n, a):
    def root(a):
        return n.lax.custom_root(lambda x: x**2 - a, n.jnp.float32(1), lambda f, x: n.lax.fori_loop(
            0, 8, lambda _, x: x - f(x) / n.jax.grad(f)(x), x), lambda g, y: y / g(n.jnp.float32(1)))
    return root(a), n.jax.grad(root)(a)


@program(BATCH, TARGETS)
def gradients_per_example(n, x, y):
    params = dense(n, n.random.key(0), 4, 3, 2)

    def loss(params, x, y):
        return n.jnp.sum((mlp(n, params, x) - y) ** 2)
    each = n.jax.jit(n.jax.vmap(n.jax.grad(loss), in_axes=(None, 0, 0)))(params, x, y)
    norms = n.jax.vmap(lambda g: n.jnp.sqrt(sum(n.jnp.sum(v**2) for v in n.jax.tree.leaves(g))))(each)
    return n.jax.tree.map(lambda g: (g / n.jnp.maximum(1, norms.reshape(-1, *[1] * (g.ndim - 1)))).mean(0), each)


@program(floats(3))
def matrices_of_derivatives(n, x):
    def f(x):
        return n.jnp.stack([x[0] * x[1], n.jnp.sin(x[2]), n.jnp.prod(x)])
    product, tangent = n.jax.jvp(n.jax.grad(lambda x: f(x).sum()), (x,), (x,))
    value, pushed = n.jax.linearize(f, x)
    return n.jax.jacfwd(f)(x), n.jax.jacrev(f)(x), n.jax.hessian(lambda x: f(x).sum())(x), product, tangent, value, pushed(x)


@program(floats(8, 4))
def data_parallel_pmap(n, x):
    def step(w, x):
        slope = n.lax.pmean(n.jax.grad(lambda w: n.jnp.sum((x @ w) ** 2))(w), "i")
        return w - 0.1 * slope, n.lax.axis_index("i")
    w, places = n.jax.pmap(step, axis_name="i", in_axes=(None, 0))(n.jnp.ones(4), x.reshape(4, 2, 4))
    return w[0], places


@program(floats(4, 8), floats(8, 16), floats(16, 8))
def tensor_parallel(n, x, up, down):
    P = n.jax.P

    @functools.partial(n.jax.shard_map, mesh=mesh(n, (4,), ("model",)), in_specs=(P(), P(None, "model"), P("model", None)), out_specs=P())
    def layer(x, up, down):
        return n.lax.psum(n.nn.relu(x @ up) @ down, "model")
    return n.jax.jit(layer)(x, up, down), n.jax.grad(lambda u: layer(x, u, down).sum())(up)


@program(floats(8, 4), floats(4, 4))
def fully_sharded(n, x, w):
    P = n.jax.P

    @functools.partial(n.jax.shard_map, mesh=mesh(n, (4,), ("data",)), in_specs=(P("data"), P("data")), out_specs=(P(), P("data")))
    def step(x, w):
        def loss(w):
            return n.jnp.sum((x @ n.lax.all_gather(w, "data", tiled=True)) ** 2)
        value, slope = n.jax.value_and_grad(loss)(w)
        return n.lax.psum(value, "data"), w - 0.01 * slope
    return n.jax.jit(step)(x, w)


@program(floats(8, 4), floats(8, 4), floats(8, 4))
def ring_attention(n, q, k, v):
    P = n.jax.P

    @functools.partial(n.jax.shard_map, mesh=mesh(n, (4,), ("sp",)), in_specs=(P("sp"),) * 3, out_specs=P("sp"), check_vma=False)
    def ring(q, k, v):
        def hop(i, state):
            k, v, top, total, out = state
            scores = q @ k.T
            new = n.jnp.maximum(top, scores.max(-1, keepdims=True))
            scale, weights = n.jnp.exp(top - new), n.jnp.exp(scores - new)
            state = total * scale + weights.sum(-1, keepdims=True), out * scale + weights @ v
            k, v = (n.lax.ppermute(a, "sp", [(j, (j + 1) % 4) for j in range(4)]) for a in (k, v))
            return k, v, new, *state
        start = (k, v, n.jnp.full((2, 1), -np.inf), n.jnp.zeros((2, 1)), n.jnp.zeros((2, 4)))
        *_, total, out = n.lax.fori_loop(0, 4, hop, start)
        return out / total
    return n.jax.jit(ring)(q, k, v), n.nn.softmax(q @ k.T) @ v


@program(floats(8, 4), floats(4, 8))
def jit_with_shardings(n, x, w):
    grid = mesh(n, (2, 4), ("data", "model"))
    NamedSharding, P = n.jax.sharding.NamedSharding, n.jax.sharding.PartitionSpec
    rows, columns = NamedSharding(grid, P("data", None)), NamedSharding(grid, P(None, "model"))

    @functools.partial(n.jax.jit, in_shardings=(rows, columns), out_shardings=NamedSharding(grid, P("data", "model")))
    def product(x, w):
        y = n.lax.with_sharding_constraint(x @ w, rows)
        return n.jnp.tanh(y)
    y = product(n.jax.device_put(x, rows), n.jax.device_put(w, columns))
    return y, str(y.sharding.spec), y.addressable_shards[0].data.shape, y.is_fully_addressable, len(y.devices())


@program()
def random_keys(n):
    random = n.random
    key = random.key(0)
    key, *more = random.split(key, 4)
    raw = random.PRNGKey(1)
    return (random.key_data(key), random.key_data(random.fold_in(more[0], 5)), random.normal(raw, (2,)), random.permutation(more[1], 6),
            random.choice(more[2], 5, (3,), replace=False), random.categorical(raw, n.jnp.zeros(4), shape=(3,)),
            n.jax.dtypes.issubdtype(key.dtype, n.jax.dtypes.prng_key), random.bernoulli(raw, 0.3, (4,)), raw.shape, key.shape)


@program(np.float32([1, 0, 2]))
def checked_division(n, x):
    checkify = import_module(f"{n.name}.experimental.checkify")

    def fun(x):
        checkify.check(n.jnp.all(x > 0), "not positive")
        return 1 / x
    error, out = checkify.checkify(n.jax.jit(fun), errors=checkify.user_checks | checkify.float_checks)(x + 1)
    failed, _ = checkify.checkify(n.jax.jit(fun))(x)
    return out, error.get() is None, "not positive" in failed.get()


@program(floats(3))
def registered_containers(n, x):
    from dataclasses import dataclass

    @functools.partial(n.jax.tree_util.register_dataclass, data_fields=["x", "y"], meta_fields=["name"])
    @dataclass
    class Pair:
        x: object
        y: object
        name: str = "pair"

    @n.jax.tree_util.register_pytree_node_class
    class Box:
        def __init__(self, value):
            self.value = value

        def tree_flatten(self):
            return (self.value,), None

        @classmethod
        def tree_unflatten(cls, _, children):
            return cls(*children)
    out = n.jax.jit(lambda p: Pair(p.x * 2, Box(p.y.value + 1), p.name))(Pair(x, Box(x)))
    paths = [n.jax.tree_util.keystr(path) for path, _ in n.jax.tree_util.tree_flatten_with_path({"a": [x, out]})[0]]
    return out.x, out.y.value, out.name, paths, n.jax.tree.reduce(lambda a, b: a + b.sum(), {"u": x, "v": [x]}, 0.0)


@program(floats(4))
def callbacks_and_printing(n, x):
    seen = []

    @n.jax.jit
    def fun(x):
        n.jax.debug.callback(lambda v: seen.append(float(v)), x[0])
        n.jax.debug.print("x = {x}, {y}", x=x, y=2)
        return n.jax.pure_callback(lambda v: np.sin(v), n.jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    out = n.jax.block_until_ready(fun(x))
    n.jax.effects_barrier()
    return out, seen


@program(floats(3, 4))
def exported_program(n, x):
    export = import_module(f"{n.name}.export")
    exported = export.export(n.jax.jit(lambda x: n.jnp.tanh(x) @ x.T))(n.jax.ShapeDtypeStruct((3, 4), np.float32))
    return exported.call(x), exported.out_avals[0].shape, exported.nr_devices


@program(floats(3, 4))
def ahead_of_time(n, x):
    lowered = n.jax.jit(lambda x, k: x * k, static_argnums=1).lower(n.jax.ShapeDtypeStruct((3, 4), np.float32), 3)
    compiled = lowered.compile()
    return compiled(x), "stablehlo" in lowered.as_text(), lowered.out_info.shape, compiled.out_tree.num_leaves, n.jax.eval_shape(
        lambda x: x.T, x).shape, len(n.jax.make_jaxpr(lambda x: n.jnp.sin(x) * 2)(x).eqns)


@program(floats(3, 4))
def settings_and_devices(n, x):
    jax = n.jax
    with jax.default_matmul_precision("float32"), jax.numpy_dtype_promotion("standard"), jax.default_device(jax.devices()[1]):
        y = n.jnp.ones(3) @ x
    with jax.named_scope("part"), jax.profiler.TraceAnnotation("span"), jax.disable_jit():
        z = jax.jit(lambda x: x + 1)(x)
    old = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", old)
    with jax.enable_x64(True):
        wide = n.jnp.ones(2).dtype.name
    return (y, next(iter(y.devices())).id, z, wide, jax.local_device_count(), jax.process_index(), jax.default_backend(), isinstance(x, jax.Array),
            isinstance(y, jax.Array), jax.jit(lambda x: isinstance(x, jax.Array) and x)(x), jax.device_get(y).__class__.__name__)


SAMPLES = PROGRAMS
