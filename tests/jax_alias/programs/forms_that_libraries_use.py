"""Forms of calls that libraries were found to depend on, by the library that does: what each gives, in values, types and structures."""

import collections
import enum
import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

warnings.simplefilter("ignore")
told = {}


def say(name, make):
    """Shapes, dtypes and values of what a form gives, or the kind of its error."""
    try:
        got = make()
    except Exception as error:
        told[name] = type(error).__name__
        return
    told[name] = [
        [list(x.shape), str(x.dtype), bool(getattr(x, "weak_type", False)), np.asarray(x, np.float64).tolist()]
        if hasattr(x, "shape")
        else repr(x)
        for x in jax.tree.leaves(got)
    ]  # fmt: skip


# rules of derivatives (flax's fp8 state, nnx's rules of bare arrays)
handed = jax.custom_vjp(lambda x, s: (x * 1.0, s))
handed.defvjp(lambda x, s: ((x * 1.0, s), s + 1.0), lambda r, g: (None, r))
silent = jax.custom_vjp(lambda x, s: x + s)
silent.defvjp(lambda x, s: (x + s, None), lambda r, g: (None, None))
say("rule without cotangents", lambda: list(map(float, jax.grad(lambda x, s: silent(*handed(x, s)), (0, 1))(2.0, 3.0))))  # fmt: skip

# classes (nnx's attributes, orbax's handlers)
say("subclass", lambda: [issubclass(type(jnp.ones(2)), jax.Array), issubclass(type(jax.random.key(0)), jax.Array), issubclass(int, jax.Array)])  # fmt: skip


@functools.singledispatch
def kind(x):
    return "other"


kind.register(jax.Array, lambda x: "array")
say("dispatched", lambda: [kind(jnp.ones(2)), kind(jax.random.key(0)), kind(np.ones(2)), kind(2)])


class Step(enum.IntEnum):
    A = 0
    B = 2


say("enum", lambda: [jnp.array([Step.A, Step.B]), jnp.asarray(Step.B), jnp.ones(3) * Step.B])

# segments (jraph)
for name in ("segment_sum", "segment_max", "segment_min", "segment_prod"):
    f = getattr(jax.ops, name)
    say(f"{name} of pairs", lambda f=f: f(jnp.arange(4.0).reshape(2, 2), jnp.array([0, 1]), 2))
    say(f"{name} of a grid of ids", lambda f=f: f(jnp.ones((2, 2)), jnp.array([[0, 1], [1, 0]]), 2))
    say(f"{name} of a scalar", lambda f=f: f(1.0, jnp.array([0, 1]), 2))

# types of branches (diffrax under strict promotion)
say("weak branch", lambda: [lax.cond(b, lambda: jnp.where(b, 1, -1), lambda: jnp.where(b, 2, -2)) for b in (True, False)])  # fmt: skip
say("weak and strong", lambda: lax.cond(jnp.bool_(True), lambda: jnp.int32(1), lambda: 2))
say("handed through", lambda: jax.vmap(lambda i, b, s: lax.cond(i % 2 == 0, lambda b, s: (b, s + 1), lambda b, s: (b, s), b, s), in_axes=(0, None, 0), out_axes=(None, 0))(jnp.arange(3), jnp.ones(2), jnp.arange(3.0)))  # fmt: skip

# examples without members (optax's assignment)
say("no examples", lambda: jax.vmap(lambda x, i: x[i])(jnp.ones((0, 3)), jnp.zeros(0, int)))
say("no slices", lambda: jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (2,)))(jnp.ones((0, 3)), jnp.zeros(0, int)))  # fmt: skip

# axes and shapes by any sequence (distrax, rlax, tensorflow_probability)
x = jnp.arange(6.0).reshape(2, 3)
deque = collections.deque
for kind_name, of in (("range", lambda *a: range(*a)), ("array", lambda *a: np.arange(*a)), ("list", lambda *a: list(range(*a))), ("deque", lambda *a: deque(range(*a)))):  # fmt: skip
    say(f"expand_dims {kind_name}", lambda of=of: jnp.expand_dims(x, of(2)))
    say(f"sum {kind_name}", lambda of=of: jnp.sum(x, axis=of(2)))
    say(f"transpose {kind_name}", lambda of=of: x.transpose(of(2)))
    say(f"flip {kind_name}", lambda of=of: jnp.flip(x, of(2)))
    say(f"roll {kind_name}", lambda of=of: jnp.roll(x, 1, axis=of(2)))
    say(f"squeeze {kind_name}", lambda of=of: jnp.squeeze(x[None, None], of(2)))
    say(f"moveaxis {kind_name}", lambda of=of: jnp.moveaxis(x, of(2), of(2)))
    say(f"broadcast_to {kind_name}", lambda of=of: jnp.broadcast_to(jnp.float32(2), of(1, 3)))
    say(f"reshape {kind_name}", lambda of=of: jnp.reshape(jnp.arange(2.0), of(1, 3)))
    say(f"zeros {kind_name}", lambda of=of: jnp.zeros(of(1, 3)))
    say(f"normal {kind_name}", lambda of=of: jax.random.normal(jax.random.key(0), of(1, 3)))
    say(f"grad {kind_name}", lambda of=of: jax.grad(lambda a, b: a * b, argnums=of(2))(2.0, 3.0))
say("shape of nothing", lambda: [list(jnp.shape(None)), jnp.ndim(None)])

# names of functions that are no names (equinox)
odd = functools.partial(lambda a: a * 2.0)
odd.__name__ = None
say("odd names", lambda: [jax.vmap(odd)(jnp.ones(2)), jax.grad(odd)(1.0), jax.jit(odd)(1.0)])

# keys (nnx's streams, chex)
a, b = jax.random.key(0), jax.random.key(1)
say("keys", lambda: [bool(jnp.allclose(a, a)), bool(jnp.allclose(a, b)), bool(jnp.array_equal(a, b)), bool((a == a).all())])  # fmt: skip

# meshes and specs (nnx's sharded modules)
mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
y = jax.device_put(jnp.ones((4, 4)), NamedSharding(mesh, P("data", None)))


def constrained():
    with jax.set_mesh(mesh):
        abstract = NamedSharding(jax.sharding.get_abstract_mesh(), P("data", "model"))
        return lax.with_sharding_constraint(y, abstract)


say("constrained", lambda: [constrained(), tuple(constrained().sharding.spec)])
say("specs", lambda: [tuple(jax.device_put(jnp.ones(4), NamedSharding(mesh, P(None))).sharding.spec), P(None) == P(), tuple((y + 1).sharding.spec)])  # fmt: skip

# what is read of programs (haiku)
lowered = jax.jit(lambda x: jnp.sin(x) * 2).lower(1.0)
say("text", lambda: ["ENTRY" in lowered.compiler_ir("hlo").as_hlo_text(), "stablehlo.sine" in lowered.as_text()])  # fmt: skip


def scoped(x):
    with jax.named_scope("outer"):
        return jnp.sin(x)


say("scopes", lambda: [str(e.source_info.name_stack) for e in jax.make_jaxpr(scoped)(1.0).eqns])


def strict():
    with jax.numpy_dtype_promotion("strict"):
        return [jnp.int32(1) + 1, jnp.where(jnp.bool_(True), 1, -1) + jnp.float32(1)]


say("strict", strict)
RESULT = told
