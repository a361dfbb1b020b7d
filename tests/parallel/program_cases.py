"""More programs on several devices that both runtimes run: where they run, what is dropped, what lowered and compiled objects say.

Adds to the cases of `device_cases`; run as a module, it writes all of them.
"""

import importlib
import json
import re
import sys

import numpy as np

from tests.parallel.device_cases import case, experimental, grid, records, seen, split

ROWS = np.arange(8, dtype=np.float32)
SQUARE = np.arange(16, dtype=np.float32).reshape(4, 4)


def named(rt, *spec, mesh=None, **kwargs):
    s = rt.sharding
    return s.NamedSharding(grid(rt) if mesh is None else mesh, s.PartitionSpec(*spec), **kwargs)


def line(rt, devices=slice(None)):
    return rt.sharding.Mesh(np.array(rt.devices()[devices]), ("i",))


def lies(a) -> list:
    return [sorted([s.device.id, str(s.index), s.replica_id] for s in a.addressable_shards), bool(a.committed)]  # fmt: skip


def specs(rt, tree) -> list:
    return [str(getattr(s, "spec", type(s).__name__)) for s in rt.tree.leaves(tree)]


def values(tree):
    return [np.asarray(x).round(4).tolist() for x in tree]


# -- where results are, and whether they stay there (X19, X45) ---------------------------------------------------


@case
def committed(rt):
    d, x, f = rt.devices(), rt.numpy.ones(8), rt.jit(lambda a: a * 2)
    out = [lies(f(x))]
    with rt.default_device(d[3]):
        out += [lies(f(ROWS)), lies(f(rt.device_put(ROWS, d[5])))]
    out.append(lies(rt.jit(lambda a: a * 2, out_shardings=named(rt, "x"))(x)))
    out.append(lies(rt.jit(lambda a: a, out_shardings=rt.sharding.SingleDeviceSharding(d[0]))(x)))
    with rt.set_mesh(rt.make_mesh((1,), ("q",))):
        out.append(lies(f(x)))
    out.append(lies(rt.jit(lambda a: rt.device_put(a, rt.memory.Space.Host))(x)))
    return out


# -- pmap (X20 to X39) ---------------------------------------------------------------------------------------------


@case
def pmap_axes(rt):
    total = rt.pmap(lambda x: rt.lax.psum(x, "i"), axis_name="i", out_axes=None)
    tree = rt.pmap(lambda d, w: (d["a"] + w, d["b"]), in_axes=({"a": 0, "b": 1}, None))
    return [
        seen(rt.pmap(lambda x: x * 2)(ROWS[:5])),
        seen(rt.pmap(lambda x: x * 2, in_axes=1, out_axes=1)(SQUARE)),
        [seen(y) for y in tree({"a": SQUARE, "b": SQUARE}, 3.0)],
        np.asarray(total(SQUARE)).tolist(),
        seen(rt.pmap(lambda x, y: x + y)(SQUARE, y=SQUARE)),
        seen(rt.pmap(lambda x: x, devices=rt.devices()[::-1])(ROWS)),
    ]


@case
def pmap_with_other_transformations(rt):
    f = rt.pmap(lambda x: x + rt.lax.psum(x, "i"), axis_name="i")
    return [
        seen(rt.jit(f)(ROWS)),
        values([rt.vmap(f)(np.stack([ROWS, ROWS + 1]))]),
        values([rt.pmap(rt.vmap(lambda v: v * 2))(SQUARE)]),
        values([rt.pmap(rt.jit(lambda v: v * 2))(SQUARE)]),
    ]


@case
def pmap_derivatives(rt):
    f, x = rt.pmap(rt.numpy.sin), ROWS[:4]
    _, pull = rt.vjp(rt.pmap(lambda a, b: a * b, in_axes=(0, None)), x, np.float32(2))
    square = rt.pmap(lambda y: rt.lax.psum(y * y, "i"), axis_name="i")
    twice = rt.checkpoint(lambda a: rt.numpy.sin(rt.numpy.sin(a)))
    return values(
        [
            rt.grad(lambda v: f(v).sum())(x),
            *pull(rt.pmap(lambda x: x)(np.ones(4, np.float32))),
            rt.grad(lambda v: square(v).sum())(x),
            rt.grad(lambda v: rt.pmap(twice, in_axes=1, out_axes=1)(v).sum())(SQUARE),
            rt.linearize(f, x)[1](x),
        ]
    )


@case
def pmap_donation(rt):
    f, out = rt.pmap(lambda t, y: (t["a"] + y, t["b"] * 2), donate_argnums=0), []
    a, b, y = (rt.pmap(lambda x: x)(ROWS) for _ in range(3))
    f({"a": a, "b": b}, y)
    here = rt.numpy.asarray(ROWS)
    f({"a": here, "b": here}, y)
    return out + [x.is_deleted() for x in (a, b, y, here)]


@case
def pmap_staged(rt):
    lowered = rt.pmap(lambda x: x * 2).lower(ROWS)
    compiled = lowered.compile()
    found = rt.tree.leaves(compiled.output_shardings)[0]
    return [
        lowered.out_info.shape,
        seen(compiled(ROWS)),
        {"flops", "bytes accessed"} <= compiled.cost_analysis().keys(),
        sorted(d.id for d in found.device_set),
    ]


@case
def pmap_keys_and_no_derivatives(rt):
    keys = rt.random.split(rt.random.key(0), 4)
    none, f = np.zeros(4, rt.dtypes.float0), rt.pmap(lambda n, x: (n, x * 2))
    tangents = rt.jvp(f, (np.arange(4), ROWS[:4]), (none, np.ones(4, np.float32)))[1]
    two = rt.pmap(lambda k: rt.random.split(k, 2))(keys)
    return [
        np.asarray(rt.pmap(rt.random.normal)(keys)).tolist(),
        np.asarray(rt.random.key_data(two)).tolist(),
        [str(tangents[0].dtype), tangents[0].shape, np.asarray(tangents[1]).tolist()],
    ]


# -- what is dropped before devices are decided (X32, X41) ---------------------------------------------------------


def parameters(lowered) -> int:
    return re.search(r"@main\((.*?)\)", lowered.as_text()).group(1).count("%arg")


@case
def unread_arguments(rt):
    f, kept = rt.jit(lambda p, q: p + 1), rt.jit(lambda p, q: p + 1, keep_unused=True)
    mapped = rt.jit(lambda a, b: rt.pmap(lambda u, v: (u * 2, v * 3))(a, b)[0]).lower(ROWS, ROWS)
    return [
        parameters(f.lower(1.0, 2.0)),
        parameters(kept.lower(1.0, 2.0)),
        [s is None for s in f.lower(1.0, 2.0).compile().input_shardings[0]],
        [mapped.as_text().count("multiply"), parameters(mapped)],
    ]


_PASSED_OVER = {
    "jit": lambda rt, a, b: rt.jit(lambda u, v: u + 1)(a, b),
    "jits": lambda rt, a, b: rt.jit(lambda u, v: rt.jit(lambda p, q: p * 2)(u, v))(a, b),
    "cond": lambda rt, a, b: rt.lax.cond(a > 0, lambda u, v: u, lambda u, v: u + 1, a, b),
    "branch": lambda rt, a, b: rt.lax.cond(
        a > 0, lambda u: u, lambda u: rt.jit(lambda p, q: p)(u, b), a
    ),
    "rows": lambda rt, a, b: rt.lax.scan(lambda c, _: (c + 1, None), a, rt.numpy.stack([b, b]))[0],
    "carry": lambda rt, a, b: rt.lax.scan(
        lambda c, _: ((c[0] + 1, c[1] * 2), None), (a, b), None, length=3
    )[0][0],
    "checkpoint": lambda rt, a, b: rt.checkpoint(lambda u, v: (rt.numpy.sin(u), v * 2))(a, b)[0],
    "results": lambda rt, a, b: rt.jit(lambda u, v: (u + 1, v * 3))(a, b)[0],
    "shard_map": lambda rt, a, b: rt.shard_map(
        lambda u, v: (u * 2, v * 3),
        mesh=line(rt, slice(1, 2)),
        in_specs=rt.sharding.PartitionSpec(),
        out_specs=rt.sharding.PartitionSpec(),
    )(a, b)[0],
    "needed": lambda rt, a, b: rt.lax.cond(a > 0, lambda u, v: u, lambda u, v: v, a, b),
}


@case
def passed_over(rt):
    a, b = (rt.device_put(np.float32(1), rt.devices()[i]) for i in (1, 2))
    out = {}
    for name, f in _PASSED_OVER.items():
        try:
            out[name] = lies(rt.jit(lambda a, b, f=f: f(rt, a, b))(a, b))
        except ValueError:
            out[name] = "ValueError"
    return out


# -- meshes without devices (X46) ------------------------------------------------------------------------------------


@case
def devices_given_late(rt):
    s, auto = rt.sharding, rt.sharding.AxisType.Auto
    abstract = s.AbstractMesh((2, 2), ("a", "b"), axis_types=(auto, auto))
    given = rt.ShapeDtypeStruct((4, 4), np.float32, sharding=named(rt, "a", "b", mesh=abstract))
    f = rt.jit(lambda x: (x @ x.T, x.sum()), out_shardings=(named(rt, "b", mesh=abstract), None))
    lowered, out = f.trace(given).lower(lowering_platforms=("cpu",)), []
    for devices in (rt.devices()[:4], rt.devices()[4:][::-1]):
        compiled = lowered.compile(device_assignment=tuple(devices))
        mesh = s.Mesh(np.array(devices).reshape(2, 2), ("a", "b"))
        for x in (rt.device_put(SQUARE, named(rt, "a", "b", mesh=mesh)), SQUARE):
            product, total = compiled(x)
            out.append([seen(product), float(total)])
    return out


# -- lowering and compiling (X47 to X57, X68 to X73, X81) ------------------------------------------------------------


@case
def two_meshes_of_the_same_devices(rt):
    return seen(
        rt.jit(lambda x, y: x + y)(
            split(rt, "x"),
            rt.device_put(np.ones((8, 16), np.float32), named(rt, "i", mesh=line(rt))),
        )
    )


@case
def annotations_of_arguments(rt):
    x, y, out = split(rt, "x", "y", shape=(8, 8)), split(rt, "y", shape=(8, 8)), []
    for f, args in (
        (lambda p, q: p @ q, (x, y)),
        (lambda p: p.T, (x,)),
        (lambda p: (p.sum(0), p * 2), (y,)),
        (lambda p: rt.lax.with_sharding_constraint(p, named(rt, "y")), (x,)),
        (lambda p, q: p + q, (split(rt, ("x", "y"), shape=(8, 8)), np.ones((8, 8), np.float32))),
    ):
        text = rt.jit(f).lower(*args).as_text()
        found = re.findall(r"(%arg\d+): tensor<\S+> {.*?sdy.sharding = (#sdy.sharding<.*?>)}", text)
        out.append([sorted(found), re.findall(r"num_partitions = (\d+)", text)])
    return out


@case
def what_a_compiled_object_says(rt):
    x, y, out = split(rt, "x", "y", shape=(8, 8)), np.ones((8, 8), np.float32), []
    for f in (
        lambda a, b: a + b,
        lambda a, b: a @ b,
        lambda a, b: a.sum(),
        lambda a, b: {"k": (a, b.T)},
        lambda a, b: a.sum(0),
        lambda a, b: (a * 2, a * 2, ()),
        lambda a, b: (),
    ):
        compiled = rt.jit(f).lower(x, y).compile()
        ins = [None if s is None else specs(rt, s) for s in compiled.input_shardings[0]]
        out.append([ins, specs(rt, compiled.output_shardings)])
    product = rt.jit(lambda p: p @ p.T).lower(x).compile()
    cost, memory = product.cost_analysis(), product.memory_analysis()
    pattern = r"(all-gather|all-reduce|reduce-scatter|collective-permute|all-to-all)\("
    return [
        *out,
        [cost["flops"], cost["bytes accessed"]],
        sorted(set(re.findall(pattern, product.as_text()))),
        [memory.argument_size_in_bytes, memory.output_size_in_bytes],
    ]


@case
def effects_on_several_devices(rt):
    io_callback = importlib.import_module(f"{rt.__name__}.experimental").io_callback
    x, out = split(rt, "x", shape=(8, 8)), []
    for f in (
        lambda x: (rt.debug.callback(lambda v: None, x.sum()), x)[1],
        lambda x: (rt.debug.callback(lambda v: None, x.sum(), ordered=True), x)[1],
        lambda x: io_callback(
            lambda v: v, rt.ShapeDtypeStruct((8, 8), np.float32), x, ordered=True
        ),
    ):
        try:
            out.append(lies(rt.jit(f)(x)))
        except ValueError:
            out.append("ValueError")
    rt.effects_barrier()
    return out


@case
def donation_in_modules(rt):
    f = rt.jit(lambda a: a + 1, donate_argnums=0)
    four = rt.device_put(np.ones((8, 4), np.float32), named(rt, "i", mesh=line(rt, slice(4))))
    return [
        "tf.aliasing_output" in f.lower(ROWS).as_text(),
        "jax.buffer_donor" in f.lower(split(rt, "x")).as_text(),
        f.lower(four).compile().memory_analysis().alias_size_in_bytes,
    ]


@case
def callbacks_see(rt):
    parts, whole = [], []
    rt.pmap(lambda x: (rt.debug.callback(lambda v: parts.append(float(v)), x), x)[1])(ROWS[:4])
    x = split(rt, "x", shape=(8, 4))
    rt.jit(lambda x: (rt.debug.callback(lambda v: whole.append(v.shape), x), x)[1])(x)
    rt.effects_barrier()
    return [sorted(parts), whole]


@case
def references_over_devices(rt):
    ref = rt.new_ref(rt.device_put(ROWS, named(rt, "i", mesh=line(rt))))

    @rt.jit
    def increment(r):
        r[...] = r[...] + 1

    increment(ref)
    increment(ref)
    return seen(ref[...])


@case
def signatures_and_uncommitted_arguments(rt):
    f = rt.jit(lambda x: x + 1)
    f(split(rt, "x"))
    first = f._cache_size()
    f(split(rt, "y"))
    compiled = rt.jit(lambda a: a * 2).lower(split(rt, "x")).compile()
    return [first, f._cache_size(), lies(compiled(rt.numpy.ones((8, 16))))]


# -- partly manual regions (X62) -------------------------------------------------------------------------------------


@case
def bare_specs_in_partly_manual_regions(rt):
    spec, lax = rt.sharding.PartitionSpec, rt.lax

    def body(a, w):
        a = lax.with_sharding_constraint(a, spec(None, "y"))
        h = lax.with_sharding_constraint(rt.numpy.tanh(a @ w), spec(None, None))
        return lax.psum(h.sum(0), "x")

    def ring(a):
        def step(c, _):
            c = lax.with_sharding_constraint(c, spec(None, "y"))
            return c + lax.ppermute(c, "x", [(i, (i + 1) % 4) for i in range(4)]), c.sum()

        last, sums = lax.scan(step, a, None, length=3)
        return last, sums[None]

    x = np.arange(64, dtype=np.float32).reshape(8, 8) / 64
    where = {"mesh": grid(rt), "axis_names": {"x"}}
    f = rt.jit(rt.shard_map(body, in_specs=(spec("x"), spec()), out_specs=spec(), **where))
    g = rt.jit(rt.shard_map(ring, in_specs=spec("x"), out_specs=(spec("x"), spec("x")), **where))
    return values([f(x, x), rt.jit(rt.grad(lambda a, w: f(a, w).sum(), 1))(x, x), *g(x)])


@case
def serialized_maps(rt):
    ways = experimental(rt, "serialize_executable")
    compiled = rt.pmap(lambda a: a + rt.lax.psum(a, "i"), axis_name="i").lower(ROWS).compile()
    return seen(ways.deserialize_and_load(*ways.serialize(compiled))(ROWS))


if __name__ == "__main__":
    print("RECORDS " + json.dumps(records(sys.argv[1])))
