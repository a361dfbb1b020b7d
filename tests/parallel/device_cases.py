"""Programs on several devices that are run twice, once by xlab and once, in a process of its own, by the reference.

A case takes the runtime as a module and returns what can be written as JSON. Run as a script, it writes all of them.
"""

import importlib
import json
import re
import sys

import numpy as np

CASES = {}


def case(f):
    """Adds a case under its name."""
    CASES[f.__name__] = f
    return f


def records(module: str) -> dict:
    """What each case gives in this process; of one that fails the builtin class of its error."""
    rt = importlib.import_module(module)
    return {name: _record(f, rt) for name, f in CASES.items()}


def _record(f, rt):
    try:
        return json.loads(json.dumps(f(rt), default=str))
    except Exception as e:
        return next(c.__name__ for c in type(e).__mro__ if c.__module__ == "builtins")


def grid(rt):
    """A mesh of four by two devices."""
    return rt.sharding.Mesh(np.array(rt.devices()).reshape(4, 2), ("x", "y"))


def split(rt, *spec, shape=(8, 16), **kwargs):
    """An array sharded over the grid."""
    s = rt.sharding
    value = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 64
    return rt.device_put(value, s.NamedSharding(grid(rt), s.PartitionSpec(*spec), **kwargs))


def seen(a) -> list:
    """Values of an array and how it lies."""
    return [
        np.asarray(a).round(5).tolist(),
        [[s.device.id, str(s.index)] for s in a.addressable_shards],
    ]


# -- custom_partitioning ----------------------------------------------------------------------------------


def partitioned(rt, fun, rule, lower=None, ins=None, outs=None, **kinds):
    """A function that is split as its operands come, or as `ins` and `outs` say."""
    module = importlib.import_module(f"{rt.__name__}.experimental.custom_partitioning")
    spec = rt.sharding.PartitionSpec
    made = module.custom_partitioning(fun)

    def partition(mesh, args, result):
        def where(chosen, given):
            if chosen is None:
                return rt.tree.map(lambda a: a.sharding, given)
            return rt.tree.map(
                lambda axes: rt.sharding.NamedSharding(mesh, spec(*axes)),
                chosen,
                is_leaf=lambda x: isinstance(x, list),
            )

        return mesh, lower or fun, where(outs, result), where(ins, args)

    made.def_partition(partition, sharding_rule=rule, **kinds)
    return made


@case
def partition_elementwise(rt):
    return seen(rt.jit(partitioned(rt, rt.numpy.sin, "... -> ..."))(split(rt, "x", "y")))


@case
def partition_rows(rt):
    f = partitioned(
        rt, lambda x: x - x.max(1, keepdims=True), "i j -> i j", ins=(["x"],), outs=["x"]
    )
    return seen(rt.jit(f)(split(rt, "x", "y")))


@case
def partition_sum_of_parts(rt):
    f = partitioned(
        rt,
        lambda x: x.sum(),
        "i j -> ",
        lambda x: rt.lax.psum(x.sum(), ("x", "y")),
        ins=(["x", "y"],),
        outs=[],
        reduction_factors=("i", "j"),
    )
    return seen(rt.jit(f)(split(rt, "x", "y")))


@case
def partition_rank(rt):
    def lower(x):
        return x * 0 + rt.lax.axis_index("x") * 10 + rt.lax.axis_index("y")

    return seen(rt.jit(partitioned(rt, lambda x: x, "i j -> i j", lower))(split(rt, "x", "y")))


@case
def partition_tree(rt):
    def f(d):
        return {"s": d["a"] + d["b"], "t": d["a"].T}

    x = split(rt, "x", "y")
    out = rt.jit(partitioned(rt, f, "i j, i j -> i j, j i"))({"a": x, "b": 2 * x})
    return [seen(out["s"]), seen(out["t"])]


@case
def partition_compound(rt):
    f = partitioned(
        rt,
        lambda x: x.reshape(4, 2, 16),
        "(i k) j -> i k j",
        lambda x: x.reshape(-1, 2, 16),
        ins=(["x"],),
        outs=["x"],
    )
    return seen(rt.jit(f)(split(rt, "x")))


@case
def partition_nested(rt):
    inner = partitioned(rt, rt.numpy.sin, "... -> ...")
    f = partitioned(rt, lambda x: inner(x) + 1, "i j -> i j")
    return seen(rt.jit(lambda x: inner(f(x)))(split(rt, "x", "y")))


@case
def partition_gradient(rt):
    sine, cosine = (partitioned(rt, f, "... -> ...") for f in (rt.numpy.sin, rt.numpy.cos))
    f = rt.custom_vjp(lambda x: sine(x))
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * cosine(x),))
    return seen(rt.jit(rt.grad(lambda x: (f(x) ** 2).sum()))(split(rt, "x", "y")))


@case
def partition_in_shard_map(rt):
    spec = rt.sharding.PartitionSpec("x", "y")
    f = partitioned(rt, lambda x: x - x.max(), "i j -> i j")
    return seen(
        rt.jit(rt.shard_map(f, mesh=grid(rt), in_specs=spec, out_specs=spec))(split(rt, "x", "y"))
    )


def _rule_case(rule, shapes, outs, **kinds):
    def f(rt):
        made = partitioned(rt, lambda *a: tuple(rt.numpy.zeros(s) for s in outs), rule, **kinds)
        first, *rest = (rt.numpy.zeros(s) for s in shapes)
        first = rt.device_put(
            first, rt.sharding.NamedSharding(grid(rt), rt.sharding.PartitionSpec())
        )
        text = rt.jit(made).lower(first, *rest).as_text()
        return text.split("sharding_rule = ")[1].split(", custom>")[0]

    f.__name__ = f"rule {rule} {shapes} {outs} {kinds}"
    case(f)


for _rule, _shapes, _outs, _kinds in (
    ("i j, j -> i j", [(8, 16), (4,)], [(8, 16)], {}),
    ("i j, i j -> i j", [(8, 16), (1, 16)], [(8, 16)], {}),
    ("...i -> ...i", [(8, 16)], [(8, 16)], {}),
    ("...0 i, ...1 i -> ...2 i", [(2, 8, 16), (3, 16)], [(2, 8, 16)], {}),
    ("... i, ... i -> ... i", [(2, 8, 16), (16,)], [(2, 8, 16)], {}),
    ("(i k) j -> i (k j)", [(8, 16)], [(4, 32)], {"k": 2}),
    ("(i k) j -> i (k j)", [(8, 16)], [(4, 32)], {"k": 3}),
    ("(i k) j -> i j", [(8, 16)], [(4, 32)], {}),
    (" i ,  -> i", [(8,), ()], [(8,)], {}),
    ("i j -> i", [(8, 16)], [(8,)], {"need_replication_factors": ("j",)}),
    ("i j -> i", [(8, 16)], [(8,)], {"permutation_factors": ("i", "j")}),
    ("i j -> i", [(8, 16)], [(8,)], {"reduction_factors": "j"}),
    ("i j -> i", [(8, 16)], [(8,)], {"reduction_factors": ("k",)}),
    ("i j -> i", [(8, 16)], [(8,)], {"k": 2}),
    ("i j -> i", [(8, 16)], [(8,)], {"i": 8}),
    ("i j -> i", [(8, 16)], [(8, 16)], {}),
    ("i, j -> i", [(8, 16)], [(8,)], {}),
    ("i j -> i, j", [(8, 16)], [(8,)], {}),
    ("i i -> i", [(8, 8)], [(8,)], {}),
    ("(i) j -> i", [(8, 16)], [(8,)], {}),
    ("(i j -> i", [(8, 16)], [(8,)], {}),
    ("((i) j) -> i", [(8, 16)], [(8,)], {}),
    ("i 8 -> i", [(8, 16)], [(8,)], {}),
    ("i j. -> i", [(8, 16)], [(8,)], {}),
    ("i ... -> i", [(8, 16)], [(8,)], {}),
    ("i j", [(8, 16)], [(8,)], {}),
    (3, [(8, 16)], [(8,)], {}),
    (" ".join("abcdefghijklmnopqrstu") + " -> a", [(1,) * 21], [(1,)], {}),
):
    _rule_case(_rule, _shapes, _outs, **_kinds)


# -- annotations ------------------------------------------------------------------------------------------

_ATTRIBUTES = re.compile(
    r"= (?:stablehlo\.|func\.)?(\w+)[ (@].*mhlo\.frontend_attributes = (\{[^}]*\})", re.MULTILINE
)


def annotations(f, *args):
    """Operations with frontend attributes, and these; broadcasts and constants are made in other numbers."""
    found = _ATTRIBUTES.findall(f.lower(*args).as_text())
    return sorted([op, a] for op, a in found if op not in ("broadcast_in_dim", "constant"))


def experimental(rt, name):
    return importlib.import_module(f"{rt.__name__}.experimental.{name}")


X = np.arange(8, dtype=np.float32)


@case
def compute_on_types(rt):
    compute_on = experimental(rt, "compute_on").compute_on

    def f(x, where):
        with compute_on(where):
            y = rt.numpy.sin(x)
        return rt.numpy.cos(y)

    out = []
    for where in ("device_host", "device", "tpu_sparsecore", "gpu_stream:1", "gpu_stream:x"):
        g = rt.jit(lambda x, where=where: f(x, where))
        out.append(
            [annotations(g, X), np.asarray(g(X)).round(5).tolist() if "device" in where else 0]
        )
    return out


def _refused(where):
    def f(rt):
        with experimental(rt, "compute_on").compute_on(where):
            pass

    f.__name__ = f"compute_on {where!r}"
    case(f)


for _where in ("host", "gpu_stream", 3, None, ""):
    _refused(_where)


@case
def compute_on_decorates_jits_and_nests(rt):
    compute_on = experimental(rt, "compute_on").compute_on

    @compute_on("device_host")
    @rt.jit
    def g(x):
        return rt.numpy.sin(x)

    def f(x):
        with compute_on("device_host"), compute_on("device"):
            y = rt.numpy.tanh(x)
        return g(y)

    gradient = rt.jit(rt.grad(lambda x: g(x).sum()))
    return [
        annotations(rt.jit(f), X),
        annotations(gradient, X),
        annotations(rt.jit(rt.vmap(g)), X),
        np.asarray(gradient(X)).round(5).tolist(),
    ]


@case
def compute_on_with_memories(rt):
    compute_on2 = experimental(rt, "compute_on").compute_on2
    space = rt.memory.Space

    @compute_on2(compute_type="device_host", out_memory_spaces=(space.Device, space.Host))
    def f(x):
        return x * 2, x + 1

    a, b = rt.jit(f)(X)
    return [
        annotations(rt.jit(lambda x: f(x)[0]), X)[-1:],
        [str(rt.typeof(a)), str(rt.typeof(b)), a.sharding.memory_kind, b.sharding.memory_kind],
        np.asarray(a).tolist(),
        np.asarray(b).tolist(),
    ]


@case
def metadata_of_blocks(rt):
    set_xla_metadata = experimental(rt, "xla_metadata").set_xla_metadata

    def f(x):
        with set_xla_metadata(a="b", n=3, flag=True):
            y = rt.numpy.sin(x)
            with set_xla_metadata(a="c", n=None):
                y = rt.numpy.tanh(y)
        return rt.numpy.cos(y)

    return [
        annotations(rt.jit(f), X),
        annotations(rt.jit(set_xla_metadata(k="v")(rt.numpy.cos)), X),
        np.asarray(f(X)).round(5).tolist(),
    ]


@case
def metadata_of_values(rt):
    tag = experimental(rt, "xla_metadata").set_xla_metadata

    def f(x):
        return tag({"s": rt.numpy.sin(x), "x": x}, a="b")["s"] * 2

    return [
        annotations(rt.jit(f), X),
        annotations(rt.jit(rt.vmap(f)), X),
        annotations(rt.jit(lambda x: tag(x, a="b")), X),
        np.asarray(rt.grad(lambda x: f(x).sum())(X)).round(5).tolist(),
        np.asarray(tag(3, a="b")).tolist(),
    ]


@case
def metadata_of_text(rt):
    return experimental(rt, "xla_metadata").set_xla_metadata("x", a="b")


@case
def metadata_with_lists(rt):
    tag = experimental(rt, "xla_metadata").set_xla_metadata
    return np.asarray(rt.jit(lambda x: tag(x * 2, a=[1, 2]))(X)).tolist()


@case
def scheduling_groups(rt):
    group = experimental(rt, "scheduling_groups").scheduling_group
    f = group(name="q")(lambda x: rt.numpy.sin(x) * 2)
    return [
        annotations(rt.jit(f), X),
        annotations(rt.jit(rt.grad(lambda x: f(x).sum())), X),
        np.asarray(rt.vmap(rt.grad(f))(X)).round(5).tolist(),
        experimental(rt, "scheduling_groups").xla_metadata_call(lambda x: x + 1, a="b")(1),
    ]


@case
def alike(rt):
    shard_alike = experimental(rt, "shard_alike").shard_alike

    def f(x):
        _, b = shard_alike({"v": x}, {"v": rt.numpy.ones((8, 16))})
        return b["v"] * 2

    x = split(rt, "x", "y")
    return [
        seen(rt.jit(f)(x)),
        seen(shard_alike(x, rt.numpy.ones((8, 16)))[1]),
        seen(rt.grad(lambda x: (shard_alike(x, x * 2)[1] ** 2).sum())(x)),
        seen(rt.jit(rt.vmap(lambda a, b: shard_alike(a, b)[1], (0, None)))(x, x[0])),
    ]


@case
def inspected_shardings(rt):
    """What the callback of `inspect_array_sharding` is told in programs, by what transforms them."""
    told = []

    def look(x):
        rt.debug.inspect_array_sharding(x, callback=lambda s: told.append([str(p) for p in s.spec]))
        return x.sum()

    x = split(rt, "x", "y")
    for f in (
        lambda x: look(x.T),
        lambda x: (look(x @ x.T), look(x + 1)),
        rt.grad(look),
        rt.vmap(look),
        lambda x: rt.lax.scan(lambda c, row: (c + look(row + c[0]), None), x[0], x)[0],
        rt.shard_map(
            lambda x: (look(x), x)[1],
            mesh=grid(rt),
            in_specs=rt.sharding.PartitionSpec("x"),
            out_specs=rt.sharding.PartitionSpec("x"),
        ),
    ):
        rt.jit(f)(x)
        told.append("next")
    look(x.T)
    return told


@case
def alike_of_other_shapes(rt):
    return experimental(rt, "shard_alike").shard_alike(np.ones(3), np.ones(4))


@case
def alike_of_other_trees(rt):
    return experimental(rt, "shard_alike").shard_alike(np.ones(3), [np.ones(3)])


if __name__ == "__main__":
    print("RECORDS " + json.dumps(records(sys.argv[1])))
