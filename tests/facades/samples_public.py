"""Samples of public names and forms of calls that libraries written for the field's API use."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

import numpy as np

from tests.numpy.samples_more import rows
from tests.reference.data import floats
from tests.reference.sample import ALL, VALUE, WHOLE, Sample

LAWS = False        # compared with the reference alone
X = floats(3, 5)


@dataclass(frozen=True)
class Like:
    """Something with a shape and a dtype that is no array."""
    shape: tuple
    dtype: np.dtype


def part(n, name):
    return import_module(f"{n.name}.{name}")


def generators(n, x):
    """A function inside transformations of each of the four kinds."""
    lu = part(n, "extend.linear_util")

    @lu.transformation
    def shifted(k, *args):
        outs = yield [a + 1 for a in args], {}
        yield [out - k for out in outs]

    @lu.transformation_with_aux
    def counted(*args):
        outs = yield args, {}
        yield outs, len(outs)

    @lu.transformation2
    def scaled(fun, k, *args):
        return [out * k for out in fun(*args)]

    @lu.transformation_with_aux2
    def named(fun, store, name, *args):
        store.store(name)
        return fun(*args)

    fun = lu.wrap_init(lambda x, k: [x * k, x], {"k": 3.0})
    fun, count = counted(scaled(shifted(fun, 2.0), 10.0))
    fun, name = named(fun, 7)
    return fun.call_wrapped(x), count(), name()


def flattened(n, x):
    au, lu = part(n, "api_util"), part(n, "extend.linear_util")
    tree = n.jax.tree
    leaves, structure = tree.flatten(((x,), {"y": 4.0}))

    def fun(x, y):
        return {"a": x * y}
    debug = au.debug_info("a test", fun, (x,), {"y": 4.0})
    flat, out_tree = au.flatten_fun(lu.wrap_init(fun, debug_info=debug), structure)
    leaves2, structure2 = tree.flatten((x, 2.0))
    flat2, out_tree2 = au.flatten_fun_nokwargs(lu.wrap_init(fun, debug_info=debug), structure2)
    outs, outs2 = flat.call_wrapped(*leaves), flat2.call_wrapped(*leaves2)
    return tree.unflatten(out_tree(), outs), tree.unflatten(out_tree2(), outs2)


def axes(n):
    au = part(n, "api_util")
    structure = n.jax.tree.structure((1, (2, 3)))
    whole = n.jax.tree.structure(((1, (2, 3)), {"k": 0}))
    return [a or -1 for a in au.flatten_axes("axes", structure, (0, None))] + [
        au.donation_vector((0,), (), whole), au.donation_vector((), ("k",), whole), au.rebase_donate_argnums((2, 3), (1,)),
        au.safe_map(lambda a, b: a + b, [1, 2], [3, 4])]


def partly(instantiate):
    def fun(n, x):
        pe, lu, au = part(n, "interpreters.partial_eval"), part(n, "extend.linear_util"), part(n, "api_util")

        def body(a, b):
            return [a * 2, n.jnp.sin(b) * a, b * 3]
        debug = au.debug_info("a test", body, (x, x), {})
        jaxpr, known, consts = pe.trace_to_jaxpr_nounits(
            lu.wrap_init(body, debug_info=debug), [pe.PartialVal.unknown(n.jax.typeof(x)), pe.PartialVal.known(x)], instantiate)
        outs = n.jax.core.eval_jaxpr(jaxpr, consts, x)
        return [p.is_known() for p in known], [p.get_known() for p in known if p.is_known()], outs
    return fun


def checked(modes):
    """`check_grads` of a right rule, and of a wrong one."""
    def fun(n, x):
        check = part(n, "test_util").check_grads
        check(lambda x: n.jnp.sin(x).sum(), (x,), 2, modes)

        @n.jax.custom_jvp
        def wrong(x):
            return n.jnp.sin(x)
        wrong.defjvp(lambda primals, tangents: (wrong(*primals), tangents[0]))
        check(wrong, (x,), 1, modes)
    return fun


def linear(staged):
    """The transpose of a linear function that has a derivative rule of its own."""
    def fun(n, x):
        @n.jax.custom_jvp
        def product(x, y):
            return x * y
        product.defjvp(lambda p, t: (product(*p), t[0] * p[1] + p[0] * t[1]))

        def scaled(x):
            return product(x, n.jnp.arange(3.0)) * 2
        return n.jax.linear_transpose(n.jax.jit(scaled) if staged else scaled, x)(x + 1)
    return fun


def partial_cotangents(n, x, wrong=False):
    """A backward rule that says None for arguments and parts of them, whose own parts are None already."""
    @n.jax.custom_vjp
    def fun(a, b):
        return a["x"] * 2, b
    fun.defvjp(lambda a, b: (fun(a, b), None),
               lambda _, ct: ({"x": ct[0] * 3, "n": None}, (None, (ct[1][1],) if wrong else ct[1][1])))
    first, second = fun({"x": x, "n": None}, (x, x))
    return first.sum() + second[0].sum() + second[1].sum()


def nowhere(n, x):
    """Results asked to lie as an array does that lies on no mesh."""
    where = n.jax.typeof(x).sharding
    return (n.random.normal(n.random.key(0), (3,), out_sharding=where), n.jnp.zeros(3, out_sharding=where), n.jnp.asarray(x, device=where),
            n.jnp.einsum("i,j->ij", x, x, out_sharding=n.jax.typeof(x[None] * x[:, None]).sharding))


def older_batch_rule(n, x):
    """A primitive whose batching rule has the older form, and no forward rule: integers do without."""
    core, batching = part(n, "extend.core"), part(n, "interpreters.batching")
    largest_p = core.Primitive("largest")
    largest_p.def_impl(lambda x: n.jnp.max(x))
    largest_p.def_abstract_eval(lambda x: n.jax.core.ShapedArray((), x.dtype))
    batching.axis_primitive_batchers[largest_p] = lambda size, name, kind, xs, dims: (largest_p.bind(xs[0]) + size + 0 * len({dims}), None)
    counts = n.jnp.arange(3)
    return (n.jax.vmap(lambda c: largest_p.bind(c), out_axes=None)(counts),
            n.jax.jvp(lambda x, c: x * largest_p.bind(c), (x, counts), (x, np.zeros(3, n.jax.dtypes.float0)))[1])


def trace_of_operands(n, x):
    core, ad = part(n, "extend.core"), part(n, "interpreters.ad")

    def fun(x):
        main = core.find_top_trace([x]).main
        return x * (isinstance(x, ad.JVPTracer) and x._trace.main is main)
    return n.jax.jvp(fun, (x,), (x,))


SAMPLES = [
    Sample("transformations", generators, [X], VALUE), Sample("flat_functions", flattened, [X], VALUE),
    Sample("axes_of_leaves", axes, transforms=("eager",)),
    Sample("axes_too_many", lambda n: part(n, "api_util").flatten_axes("axes", n.jax.tree.structure((1, 2)), (0, 1, 2)),
           error="ValueError"),
    Sample("map_of_lengths", lambda n: part(n, "api_util").safe_map(max, [1], [2, 3]), error="ValueError"),
    *(Sample(f"known_part_{i}", partly(i), [np.float32([1, 2])], ("eager",)) for i in (False, True)),
    *(Sample(f"check_grads_{'_'.join(m)}", checked(m), [np.float32([0.3, 1.2])], error="AssertionError")
      for m in (["fwd"], ["rev"], ["fwd", "rev"])),
    Sample("versions", lambda n: (n.jax.__version_info__ >= (0, 4, 30), part(n, "version").__version__.count("."),
                                  part(n, "lib").__version__.count(".")), transforms=("eager",)),
    Sample("type_names", lambda n, x: [isinstance(x, n.jax.typing.ArrayLike.__args__), str in n.jax.typing.DTypeLike.__args__],
           [X], ("eager",)),
    Sample("former_shard_map", lambda n, x: part(n, "experimental.shard_map").shard_map(
        lambda x: n.lax.psum(x, "i"), n.jax.make_mesh((2,), ("i",), axis_types=(n.jax.sharding.AxisType.Auto,)),
        n.jax.P("i"), n.jax.P(), check_rep=False)(x), [floats(4)], VALUE),
    Sample("former_pjit", lambda n, x: part(n, "experimental.pjit").pjit(lambda x: x * 2)(x), [X], VALUE),
    *(Sample(f"{name}_described", lambda n, name=name: (
        getattr(n.jnp, name)(n.jax.ShapeDtypeStruct((2,), np.dtype("float32"))), getattr(n.jnp, name)(Like((3,), np.dtype("int32")))),
        transforms=VALUE) for name in ("zeros_like", "ones_like", "empty_like")),
    Sample("full_like_described", lambda n: n.jnp.full_like(n.jax.ShapeDtypeStruct((2,), np.dtype("float32")), 3), transforms=VALUE),
    Sample("shape_described", lambda n: (n.jnp.shape(Like((3, 2), None)), n.jnp.ndim(n.jax.ShapeDtypeStruct((2,), np.dtype("int8")))), transforms=("eager",)),
    *rows(VALUE, ("jnp.uint32(3000000000)",), ("jnp.array(3000000000, jnp.uint32)",), ("jnp.array(3000000000, jnp.float32)",),
          ("jnp.full(2, 3000000000, jnp.uint32)",), ("lax.convert_element_type(3000000000, jnp.uint32)",), ("jnp.asarray(2**40, float)",),
          ("jnp.array(3000000000, bool)",), ("jnp.uint32(x) + jnp.uint32(0xdeadbeef)", np.uint32(5))),
    *rows(("eager",), ("jnp.uint32(-1)",), ("jnp.uint8(256)",), ("jnp.array(2**31, jnp.int32)",), ("jnp.array(-1, jnp.uint8)",), ("jnp.uint32(2**32)",), error="OverflowError"),
    *rows(WHOLE, ("lax.cond(x[0] > 0, x, lambda a: a + 1, x * 2, lambda b: b - 1)", floats(3)),
          ("lax.cond(x[0] > 0, (x, 2.), lambda a: a[0] * a[1], (), lambda b: x)", floats(3)),
          ("jax.vmap(lambda t: t[1] * 2, in_axes=((None, 0),))((None, x))", floats(3, 2)),
          ("jax.vmap(lambda t: (None, t[1]), in_axes=((None, 0),), out_axes=(None, 1))((None, x))", floats(3, 2)),
          ("jax.tree.broadcast(x, (None, 2, [3]), is_leaf=lambda v: v is None)[1]", floats(2))),
    Sample("cond_of_no_operand", lambda n: n.lax.cond(True, lambda x: 1 if x is None else 2, lambda x: 3, operand=None), transforms=VALUE),
    Sample("cond_of_values", lambda n, x: n.lax.cond(True, x, lambda x: x, lambda x: x), [X], error="TypeError"),
    *(Sample(f"linear_transpose_{name}", linear(staged), [floats(3)], VALUE) for name, staged in (("eager", False), ("jit", True))),
    Sample("cotangents_of_none", partial_cotangents, [floats(3)], ("eager", "grad")),
    Sample("cotangents_misplaced", lambda n, x: n.jax.grad(lambda x: partial_cotangents(n, x, wrong=True))(x), [floats(3)], error="TypeError"),
    Sample("older_batch_rule", older_batch_rule, [floats(3)], ("eager",)), Sample("trace_of_operands", trace_of_operands, [floats(3)], ("eager",)),
    Sample("jit_on_device", lambda n, x: n.jax.jit(lambda x: x + 1, device=n.jax.devices()[1])(x).devices() == {n.jax.devices()[1]},
           [floats(3)], ("eager",)),
    Sample("jit_on_device_and_backend", lambda n, x: n.jax.jit(n.jnp.sin, device=n.jax.devices()[0], backend="cpu"), [floats(3)],
           error="ValueError"),
    Sample("sharding_of_no_mesh", nowhere, [floats(3)], VALUE),
    Sample("einsum_of_own_product", lambda n, x, y: n.jnp.einsum(
        "ij,jk,k->i", x, y, y[0], _dot_general=lambda a, b, d, precision=None, preferred_element_type=None, **_:
        n.lax.dot_general(a, b, d, precision=precision) * 2), [floats(2, 3), floats(3, 4)], ("eager", "jit", "vmap")),
    *rows(ALL, ("lax.cond(True, x, lambda a: a * a, x, lambda b: b)", floats(3))),
]
