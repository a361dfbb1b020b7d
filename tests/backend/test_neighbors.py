"""What each package says of the other's values, for every kind of value and every way in: it works, or the words say what to write instead."""

from __future__ import annotations

import importlib.util

import pytest

from tests.test_neighbor import run

needs_reference = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None,
    reason="the reference is not installed in this environment",
)

SWEEP = '''
import jax, jax.numpy as jnp, numpy as np, xlab, xlab.numpy as xnp
from functools import partial
from xlab.core import dtypes as core_dtypes
from xlab.core.array import is_native_array

ours, theirs = xnp.arange(4.0), jnp.arange(4.0)
our_key, their_key = xlab.random.key(0), jax.random.key(0)
our_mesh, their_mesh = xlab.make_mesh((8,), ("x",)), jax.make_mesh((8,), ("x",))
our_sharding, their_sharding = xlab.NamedSharding(our_mesh, xlab.P("x")), jax.NamedSharding(their_mesh, jax.P("x"))
eight = np.arange(8.0, dtype=np.float32)

def ways(package, numpy, own):
    """Every way for an array into a package: functions of its NumPy, operators, transformations, control flow."""
    lax, one = package.lax, lambda x: x + x  # what no function computes with stays what it was
    return {
        "sin": numpy.sin, "array": numpy.array, "concatenate": lambda x: numpy.concatenate([own, x]), "stack": lambda x: numpy.stack([x, x]),
        "where": lambda x: numpy.where(own > 0, x, 0), "full": lambda x: numpy.full(2, x[0]), "list": lambda x: numpy.array([x[0], x[1]]),
        "operator": lambda x: own + x, "index": lambda x: own[x.astype(int)], "at": lambda x: own.at[0].set(x[0]),
        "lax": lambda x: lax.add(x, x), "jit": lambda x: package.jit(one)(x), "closed over": lambda x: package.jit(lambda y: y + x)(own),
        "grad": lambda x: package.grad(lambda x: x.sum())(x), "vjp": lambda x: package.vjp(one, x)[0], "linearize": lambda x: package.linearize(one, x)[0],
        "cond": lambda x: lax.cond(True, one, one, x), "pmap": lambda x: package.pmap(one)(x[:1]), "jacfwd": lambda x: package.jacfwd(one)(x),
        "associative_scan": lambda x: lax.associative_scan(numpy.add, x), "make_jaxpr": lambda x: package.make_jaxpr(one)(x) and own,
        "vmap": lambda x: package.vmap(one)(x), "scan": lambda x: lax.scan(lambda c, x: (c, x), 0.0, x)[1], "map": lambda x: lax.map(one, x),
        "while_loop": lambda x: lax.while_loop(lambda c: False, one, x), "fori_loop": lambda x: lax.fori_loop(0, 2, lambda i, c: c, x),
        "checkpoint": lambda x: package.checkpoint(one)(x),
    }

def key_ways(package, numpy):
    random = package.random
    return {
        "normal": random.normal, "bits": random.bits, "split": random.split, "fold_in": lambda k: random.fold_in(k, 1), "key_data": random.key_data,
        "key_impl": random.key_impl, "clone": random.clone, "asarray": numpy.asarray, "stack": lambda k: numpy.stack([k, k]),
        "sin": numpy.sin, "device_put": package.device_put, "jit": lambda k: package.jit(lambda k: k)(k), "vmap": lambda k: package.vmap(lambda k: k)(k[None]),
    }

def dtype_ways(package, numpy):
    return {
        **{name: lambda d, f=getattr(numpy, name): f((2,), dtype=d) for name in ("zeros", "ones", "empty")},
        **{name: lambda d, f=getattr(numpy, name), a=a: f(*a, dtype=d) for name, a in (
            ("full", ((2,), 0)), ("asarray", (eight,)), ("array", ([1, 2],)), ("arange", (3,)), ("zeros_like", (eight,)), ("eye", (3,)), ("sum", (eight,)))},
        "astype": lambda d: numpy.asarray(eight).astype(d), "promote_types": lambda d: numpy.promote_types(d, np.float32),
        "issubdtype": lambda d: numpy.issubdtype(d, np.floating),
    }

def placement_ways(package, numpy):
    jit = package.jit
    return {
        "device_put": partial(package.device_put, eight), "in_shardings": lambda s: jit(lambda x: x, in_shardings=s)(eight),
        "out_shardings": lambda s: jit(lambda x: x, out_shardings=s)(eight), "constraint": lambda s: package.lax.with_sharding_constraint(numpy.ones(8), s),
        "callback": lambda s: package.make_array_from_callback((8,), s, lambda i: eight[i]), "zeros": lambda s: numpy.zeros(8, device=s),
        "struct": lambda s: jit(lambda x: x).lower(package.ShapeDtypeStruct((8,), np.float32, sharding=s)),
        "single": lambda s: package.make_array_from_single_device_arrays((8,), s, [numpy.ones(8)]),
    }

def mesh_ways(package):
    P = package.P
    return {
        "NamedSharding": lambda m: package.NamedSharding(m, P("x")), "set_mesh": package.set_mesh,
        "shard_map": lambda m: package.shard_map(lambda x: x, mesh=m, in_specs=P("x"), out_specs=P("x"))(eight),
    }

def said(way, x):
    try:
        way(x)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""

faults = []
def check(who, table, x, *words, works=(), in_jax_words=()):
    for name, way in table.items():
        text = said(way, x)
        right = not text if name in works else bool(text) if name in in_jax_words else any(w in text for w in words)
        if not right:
            faults.append(f"{who}, {name}: {text or 'accepted'}")

# Arrays: ours take theirs; theirs say how ours are handed over.
for name, way in ways(xlab, xnp, ours).items():
    found = way(theirs)
    if not all(map(is_native_array, xlab.tree.leaves(found))):
        faults.append(f"jax array in xlab's {name}: {found!r}")
check("xlab array in jax", ways(jax, jnp, theirs), ours, "jax.numpy.asarray(numpy.asarray(x))",
      # JAX looks only at the class of its type here, and its words are its own.
      in_jax_words=("vmap", "scan", "map", "while_loop", "fori_loop", "checkpoint"))
check("xlab key in jax", key_ways(jax, jnp), our_key, "jax.random.wrap_key_data(numpy.asarray(xlab.random.key_data(key)))", in_jax_words=("clone",))
check("jax key in xlab", key_ways(xlab, xnp), their_key, "xlab.random.wrap_key_data(jax.random.key_data(key))")
MODERN = tuple(map(int, np.__version__.split(".")[:2])) >= (2, 4)
for who, numpy in (("jax.numpy", jnp), ("numpy", np)):
    if MODERN:  # before, NumPy asks nothing of what it does not know
        check(f"xlab's key type in {who}", dtype_ways(None, numpy), our_key.dtype, "impl='threefry2x32'")
        fp8 = type("fp8", (core_dtypes.ExtendedDType,), {"name": "fp8", "type": xlab.dtypes.extended, "itemsize": 4, "base_shape": (), "base_dtype": np.dtype("float32")})()
        check(f"an extended type in {who}", dtype_ways(None, numpy), fp8, "x.astype(float32)")
check("jax's key type in xlab", dtype_ways(None, xnp), their_key.dtype, "xlab.random.key(0).dtype")
check("jax's key type in a struct", {"struct": lambda d: xlab.ShapeDtypeStruct((2,), d)}, their_key.dtype, "xlab.random.key(0).dtype")
assert xnp.zeros(2, jnp.bfloat16).dtype == jnp.bfloat16 and jnp.zeros(2, xnp.bfloat16).dtype == xnp.bfloat16  # those of NumPy are both's
check("jax sharding in xlab", placement_ways(xlab, xnp), their_sharding, "xlab.NamedSharding(mesh, xlab.P(*spec))")
check("jax mesh in xlab", mesh_ways(xlab), their_mesh, "xlab.make_mesh(mesh.axis_sizes, mesh.axis_names)")
specs = {"NamedSharding": lambda p: xlab.NamedSharding(our_mesh, p), "shard_map": lambda p: xlab.shard_map(lambda x: x, mesh=our_mesh, in_specs=p, out_specs=p)(eight)}
check("jax spec in xlab", specs, jax.P("x"), "xlab.P(*spec)")
# JAX refuses what is not of its classes by their names.
check("xlab sharding in jax", placement_ways(jax, jnp), our_sharding, "jax.sharding", "PartitionSpec instances", "ShardingTypes", in_jax_words=("single",))
check("xlab mesh in jax", mesh_ways(jax), our_mesh, "jax.sharding.Mesh", "jax.make_mesh(sizes, names)")
assert not faults, "\\n".join(faults)
'''


@needs_reference
@pytest.mark.reference
def test_every_value_of_one_in_every_function_of_the_other():
    run(SWEEP)
