"""`custom_partitioning`: what its callbacks see, batches, Explicit axes, rules made from callbacks, failures, and what the views say."""

import functools

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.parallel.device_cases import grid, partitioned, split
from xlab import observe
from xlab.experimental.custom_partitioning import (
    BATCHING,
    CompoundFactor,
    SdyShardingRule,
    custom_partitioning,
)
from xlab.sharding import AbstractMesh, AxisType, NamedSharding
from xlab.sharding import PartitionSpec as P


@pytest.fixture
def x():
    return split(xlab, "x", "y")


def rule_text(f, *args):
    return xlab.jit(f).lower(*args).as_text().split("sharding_rule = ")[1].split(", custom>")[0]


def test_callbacks_see_static_arguments_the_mesh_and_shardings(x):
    seen = {}

    @functools.partial(custom_partitioning, static_argnums=(1,))
    def scale(x, k, y=1.0):
        return x * k * y

    def partition(k, mesh, args, result):
        seen["partition"] = (
            k,
            mesh,
            [(a.shape, a.sharding.spec) for a in args],
            result.sharding.spec,
        )
        return mesh, lambda x, y: x * k * y, result.sharding, (args[0].sharding, P())

    def rule(k, mesh, operands, results):
        seen["rule"] = k, mesh, [t.rank for t in operands], [tuple(t.shape) for t in results]
        return "i j, -> i j"

    scale.def_partition(partition, sharding_rule=rule)
    out = xlab.jit(lambda x: scale(x, 3))(x)
    np.testing.assert_array_equal(out, 3 * np.asarray(x))
    assert out.sharding.spec == P("x", "y")
    assert seen["rule"] == (3, grid(xlab), [2, 0], [(8, 16)])
    assert seen["partition"] == (
        3,
        grid(xlab),
        [((8, 16), P("x", "y")), ((), P())],
        P("x", "y"),
    )


def test_shardings_may_be_left_undecoded(x):
    kinds = []
    f = custom_partitioning(jnp.sin)

    def partition(mesh, args, result):
        kinds.append(type(result.sharding).__name__)
        return mesh, jnp.sin, result.sharding, (args[0].sharding,)

    f.def_partition(partition, sharding_rule="... -> ...", decode_shardings=False)
    np.testing.assert_allclose(xlab.jit(f)(x), np.sin(x), rtol=1e-5, atol=1e-6)
    assert kinds == ["GSPMDSharding"]


def test_a_batch_is_one_more_dimension_of_the_rule(x):
    shapes = []
    f = custom_partitioning(lambda x: x.sum())

    def partition(mesh, args, result):
        (a,) = args
        shapes.append((a.shape, a.sharding.spec, result.shape))
        axes = a.sharding.spec.axes_of(0)
        return mesh, lambda x: xlab.lax.psum(x.sum(), axes) if axes else x.sum(), P(), a.sharding

    f.def_partition(partition, sharding_rule="i -> ", reduction_factors=("i",))
    columns = xlab.jit(xlab.vmap(f, 1))
    np.testing.assert_allclose(columns(x), np.asarray(x).sum(0), rtol=1e-6)
    assert columns(x).sharding.spec == P("y") and shapes[0] == ((8,), P("x"), ())
    assert rule_text(xlab.vmap(f, 1), x) == (
        "#sdy.op_sharding_rule<([i, j])->([i]) {i=16, j=8} reduction={j}"
    )


def test_batches_nest_and_leave_out_what_has_none(x):
    f = partitioned(xlab, lambda x, y: x * y, "i, i -> i")
    y = np.arange(48, dtype=np.float32).reshape(3, 16)
    g = xlab.jit(xlab.vmap(xlab.vmap(f, (0, None)), (None, 0)))
    out = g(x, y)
    np.testing.assert_array_equal(out, np.asarray(x)[None] * y[:, None])
    assert out.sharding.spec == P(None, "x", "y")
    assert rule_text(xlab.vmap(xlab.vmap(f, (0, None)), (None, 0)), x, y) == (
        "#sdy.op_sharding_rule<([i, j], [k, j])->([k, i, j]) {i=8, j=16, k=3}"
    )


def test_without_a_rule_shardings_go_where_the_callback_for_operands_says(x):
    f = custom_partitioning(lambda x, y: (x.T + y).T)

    def partition(mesh, args, result):
        return mesh, f.fun, args[0].sharding, tuple(a.sharding for a in args)

    f.def_partition(
        partition, infer_sharding_from_operands=lambda mesh, args, result: args[0].sharding
    )
    y = split(xlab, "x", shape=(8,))
    out = xlab.jit(f)(x, y)
    np.testing.assert_array_equal(out, f.fun(np.asarray(x), np.asarray(y)))
    assert out.sharding.spec == P("x", "y")
    assert rule_text(f, x, y) == "#sdy.op_sharding_rule<([i, j], [k])->([i, j]) {i=8, j=16, k=8}"


def test_explicit_axes_are_typed_as_in_the_plain_function():
    mesh = xlab.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    x = xlab.device_put(np.ones((8, 16), np.float32), NamedSharding(mesh, P("x", "y")))
    out = xlab.jit(partitioned(xlab, lambda x: x.T * 2, "i j -> j i"))(x)
    assert str(xlab.typeof(out)) == "float32[16@y,8@x]"


def test_lowered_for_a_mesh_without_devices(x):
    mesh = AbstractMesh((4, 2), ("x", "y"))
    given = xlab.ShapeDtypeStruct((8, 16), np.float32, sharding=NamedSharding(mesh, P("x", "y")))
    f = xlab.jit(partitioned(xlab, jnp.sin, "i j -> i j"))
    lowered = f.trace(given).lower(lowering_platforms=("cpu",))
    out = lowered.compile(device_assignment=xlab.devices())(x)
    np.testing.assert_allclose(out, np.sin(x), rtol=1e-5, atol=1e-6)


def test_programs_with_own_partitioners_stay_in_this_process(x, tmp_path):
    f = xlab.jit(partitioned(xlab, jnp.sin, "i j -> i j"))
    with pytest.raises(NotImplementedError, match="exist only in this process"):
        xlab.export.export(f)(x)
    xlab.config.update("jax_compilation_cache_dir", str(tmp_path))
    xlab.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    try:
        f(x)
    finally:
        xlab.config.update("jax_compilation_cache_dir", None)
        xlab.config.update("jax_persistent_cache_min_compile_time_secs", 1.0)
    assert not list(tmp_path.iterdir())


def test_settings_of_the_caller_hold_where_parts_are_traced(x):
    with xlab.enable_x64(True):
        f = partitioned(
            xlab,
            lambda x: x * 2,
            "i j -> i j",
            lambda x: (x.astype("float64") * 2).astype("float32"),
        )
        assert "f64[" in xlab.jit(f).lower(x).compile().as_text()


def partition(lower, arg_shardings=None):
    def made(mesh, args, result):
        return mesh, lower, result.sharding, arg_shardings or (args[0].sharding,)

    return made


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda mesh, args, result: {}["mine"], "KeyError: 'mine'"),
        (lambda mesh, args, result: 3, r"has to return \(mesh, lower_fn"),
        (lambda mesh, args, result: (3, 4, 5, 6), "a mesh and a function first, got int and int"),
        (
            partition(lambda x: x[:1]),
            r"result 0 is f32\[1,8\].*a device's part of it is f32\[2,8\]",
        ),
        (partition(lambda x: x.astype(int)), r"result 0 is i32\[2,8\]"),
        (partition(lambda x: (x, x)), "results of the structure"),
        (partition(lambda x: x, (P("x"), P())), "Tuple arity mismatch"),
        (partition(lambda x: x, (3,)), "are shardings, specs or None, got 3"),
        (partition(lambda x: x, (P(None, None, "x"),)), "operand 0"),
        (partition(lambda x: xlab.lax.psum(x, "z")), "z"),
        (partition(lambda x: xlab.debug.callback(print, x) or x), "callbacks cannot be added"),
    ],
)
def test_failures_of_callbacks_say_what_and_where(x, function, says):
    f = custom_partitioning(lambda x: x)
    f.def_partition(function, sharding_rule="i j -> i j")
    with pytest.raises(xlab.errors.JaxRuntimeError, match=says) as e:
        xlab.jit(f)(x)
    assert "test_custom_partitioning.py" in str(e.value) and e.value.__cause__ is not None


def test_mistakes_before_the_program_is_compiled(x):
    f = custom_partitioning(lambda x: x)
    with pytest.raises(AttributeError, match="def_partition"):
        f(x)
    with pytest.raises(TypeError, match="partition must be a function"):
        f.def_partition(3)
    with pytest.raises(ValueError, match="k belong to a sharding_rule that is a string"):
        f.def_partition(partition(f.fun), sharding_rule=SdyShardingRule((("i",),), (("i",),)), k=2)
    f.def_partition(partition(f.fun), sharding_rule=lambda *a: 3)
    with pytest.raises(ValueError, match="must produce either") as e:
        xlab.jit(f)(x)
    assert "test_custom_partitioning.py" in "".join(e.value.__notes__)
    with pytest.raises(NotImplementedError, match="xlab.custom_vjp"):
        xlab.grad(lambda x: f(x).sum())(x)
    with pytest.raises(TypeError, match="key_data"):
        f(xlab.random.key(0))
    with pytest.raises(xlab.errors.UnexpectedTracerError, match="Pass it as an argument"):
        xlab.jit(lambda x: custom_partitioning_of_closure(x))(x)


def custom_partitioning_of_closure(x):
    f = custom_partitioning(lambda: x + 1)
    f.def_partition(partition(f.fun), sharding_rule="-> i j")
    return f()


def test_rules_as_objects():
    rule = SdyShardingRule(
        ((BATCHING, CompoundFactor("i", "k")), ("k", "j")),
        ((BATCHING, "i", "j"),),
        reduction_factors=("k",),
    )
    assert rule.text == "... (i k), k j -> ... i j; reduction k"
    assert rule.factors([(3, 8), (2, 5)], [(3, 4, 5)]).attribute() == (
        "#sdy.op_sharding_rule<([i, jk], [k, l])->([i, j, l]) {i=3, j=4, k=2, l=5} reduction={k}, custom>"
    )
    for wrong, error in (
        (lambda: CompoundFactor("i"), ValueError),
        (lambda: CompoundFactor("i", BATCHING), ValueError),
        (lambda: SdyShardingRule((("i", BATCHING),), ()), ValueError),
        (lambda: SdyShardingRule((("i", 3),), ()), TypeError),
        (lambda: SdyShardingRule((("i",),), (), i=3), ValueError),
        (lambda: SdyShardingRule(((BATCHING + "a",),), ()), ValueError),
    ):
        with pytest.raises(error):
            wrong()


def test_views_say_the_rule(x):
    f = custom_partitioning(lambda x: x - x.max(1, keepdims=True))

    def rows(mesh, args, result):
        s = NamedSharding(mesh, P(args[0].sharding.spec[0]))
        return mesh, f.fun, s, (s,)

    f.def_partition(rows, sharding_rule="i j -> i j", need_replication_factors=("j",))
    g = xlab.jit(lambda x: f(x * 2))
    equation = observe.program(g, x).equations[1]
    assert "sharding_rule=i j -> i j; needs replication j" in equation.params
    reasons = [t.reason for t in observe.transfers(g, x)]
    assert any("custom partitioning rule: i j -> i j; needs replication j" in r for r in reasons)
