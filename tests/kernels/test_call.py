"""`kernel_call`: its arguments, tracing, aliases, modes, compiled path, and what it prints (K40–K46, K49–K53, K55–K57)."""

from __future__ import annotations

import dataclasses
import functools
import gc
import re
import weakref

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.config import config, flag_context
from xlab.kernels import (
    ANY,
    BlockSpec,
    CostEstimate,
    GridSpec,
    InterpretParams,
    MemorySpace,
    interpret_mode,
    kernel,
    kernel_call,
    program_id,
    register_lowering_rule,
    when,
)
from xlab.kernels.sharing import NotComparable, function_key
from xlab.sharding import AxisType, ManualAxisType, NamedSharding
from xlab.sharding import PartitionSpec as P

X = jnp.arange(8.0)
OUT = xlab.ShapeDtypeStruct((8,), "float32")
BLOCK = BlockSpec((4,), lambda i: (i,))
BLOCKS = {"grid": 2, "in_specs": [BLOCK], "out_specs": BLOCK}


def out(*shape, dtype="float32"):
    return xlab.ShapeDtypeStruct(shape, dtype)


def double(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def run(body, outputs, *args, **options):
    return kernel_call(body, outputs, interpret=True, **options)(*args)


def equation(f, *args):
    (eqn,) = (e for e in xlab.make_jaxpr(f)(*args).eqns if e.primitive.name == "kernel_call")
    return eqn


# -- arguments ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more", [{"grid": 2}, {"in_specs": [BLOCK]}, {"out_specs": BLOCK}, {"scratch_shapes": [ANY((1,), "float32")]}]
)  # fmt: skip
def test_k40_grid_spec_excludes_its_fields(more):
    with pytest.raises(ValueError, match=f"grid_spec and {next(iter(more))}: "):
        kernel_call(double, OUT, grid_spec=GridSpec(2), **more)
    spec = GridSpec(2, [BLOCK], BLOCK)
    np.testing.assert_array_equal(run(double, OUT, X, grid_spec=spec), X * 2)


@pytest.mark.parametrize("bad", [3, "f32", object()])
def test_k41_outputs_are_types_of_arrays(bad):
    with pytest.raises(ValueError, match="outputs of out_shape: expected the type of an array"):
        kernel_call(double, bad)
    with pytest.raises(ValueError, match=r"outputs\['a'\]\[1\] of out_shape"):
        kernel_call(double, {"a": [OUT, bad]})


@pytest.mark.parametrize(
    "like",
    [OUT, X, np.zeros(8, np.float32), ANY((8,), "float32"), MemorySpace.LOCAL((8,), "float32")],
)
def test_k41_anything_with_shape_and_dtype_is_an_output(like):
    np.testing.assert_array_equal(run(double, like, X), X * 2)


def test_k41_lists_become_tuples_and_one_output_an_array():
    def two(x, a, b):
        a[...], b[...] = x[...], x[...] + 1

    got = run(two, [OUT, OUT], X)
    assert type(got) is tuple and len(got) == 2
    assert type(run(lambda x, a: None, (OUT,), X)) is tuple
    assert run(double, OUT, X).shape == (8,)
    tree = run(lambda x, o: o["a"][0].__setitem__(..., x[...]), {"a": [OUT]}, X)
    np.testing.assert_array_equal(tree["a"][0], X)
    assert run(lambda: None, ()) == ()


def test_k42_order_of_the_kernels_references():
    spec = xlab.kernels.PrefetchGridSpec(
        1, grid=(), scratch_shapes=[ANY((2,), "float32"), ANY((3,), "int32")]
    )

    def body(p, x, tree, o, s, t):
        assert [r.shape for r in (p, x, tree["w"], o, s, t)] == [(1,), (8,), (4,), (8,), (2,), (3,)]
        o[...] = x[...]

    f = kernel_call(body, OUT, grid_spec=spec, interpret=True)
    np.testing.assert_array_equal(f(jnp.zeros(1, "int32"), X, {"w": jnp.zeros(4)}), X)


def test_k42_scratch_by_name():
    def body(x, o, *, total, seen):
        assert total.shape == (1,) and seen[0].shape == (2,)
        o[...] = x[...]

    scratch = {"total": ANY((1,), "float32"), "seen": [ANY((2,), "int32")]}
    np.testing.assert_array_equal(run(body, OUT, X, scratch_shapes=scratch), X)


def test_k42_scratch_lives_from_step_to_step():
    def body(o, s):
        @when(program_id(0) == 0)
        def _():
            s[0] = 0

        o[0] = s[0]
        s[0] += 1

    got = run(
        body,
        out(4, dtype="int32"),
        grid=4,
        out_specs=BlockSpec((1,), lambda i: i),
        scratch_shapes=[ANY((1,), "int32")],
    )
    np.testing.assert_array_equal(got, [0, 1, 2, 3])


def test_k42_nothing_is_written():
    for dtype, value in (
        ("float32", np.nan),
        ("bool", False),
        ("int32", np.iinfo(np.int32).min),
        ("int16", 0),
    ):
        np.testing.assert_array_equal(run(lambda o: None, out(2, dtype=dtype)), [value] * 2)


# -- tracing --------------------------------------------------------------------------------------------------


def test_k43_kernels_return_none():
    def body(x_ref, o_ref):
        return {"a": x_ref[...]}

    message = r"body at .*test_call.py:\d+ should return None.*\{'a': \*\}"
    with pytest.raises(ValueError, match=message):
        run(body, OUT, X)
    with pytest.raises(ValueError, match="nick for kernel function .*body"):
        run(body, OUT, X, name="nick")


def test_k43_arrays_are_not_captured_and_numbers_are():
    y = jnp.ones(8)
    with pytest.raises(ValueError, match=r"captures constants float32\[8\].*pass them as inputs"):
        run(lambda x, o: o.__setitem__(..., x[...] + y), OUT, X)
    with pytest.raises(ValueError, match=r"captures constants float32\[8\], float32\[2\]"):
        run(
            lambda x, o: o.__setitem__(
                ...,
                x[...]
                + np.float32(y)
                + np.ones(2, np.float32).sum()
                + jnp.sum(jnp.ones(2) + np.ones(2, np.float32)),
            ),
            OUT,
            X,
        )
    with pytest.raises(ValueError, match="captures constants"):
        xlab.jit(lambda s: run(lambda x, o: o.__setitem__(..., x[...] + s), OUT, X))(1.0)
    for number in (2, 2.0, np.float32(2), np.int8(2), jnp.float32(2), jnp.int32(2)):
        got = run(lambda x, o, n=number: o.__setitem__(..., x[...] * n), OUT, X)
        np.testing.assert_array_equal(got, X * 2)


def test_k43_a_kernel_is_traced_once_for_a_signature():
    traced = []

    def body(x, o):
        traced.append(x.shape)
        o[...] = x[...]

    f = kernel_call(body, OUT, interpret="value")
    for _ in range(3):
        np.testing.assert_array_equal(f(X), X)
    assert len(traced) == 1
    traced.clear()
    f = kernel_call(body, OUT, interpret=True)
    for _ in range(3):
        f(X)
    assert len(traced) == 1
    jitted = xlab.jit(lambda x: f(f(x)))
    jitted(X)
    assert len(traced) == 1
    f(X.astype("int32").astype("float32"))
    assert len(traced) == 1


def test_k43_what_is_dead_is_removed():
    def body(x, o):
        _ = jnp.sin(x[...]) @ x[...]
        o[...] = x[...]

    jaxpr = equation(kernel_call(body, OUT), X).params["jaxpr"]
    assert [e.primitive.name for e in jaxpr.eqns] == ["get", "swap"]
    assert not jaxpr.out_avals and not jaxpr.consts


def module_level(x_ref, o_ref, n=2):
    _TRACED.append(x_ref.shape)
    o_ref[...] = x_ref[...] * n


def module_map(i):
    return (i,)


_TRACED: list = []


def test_calls_made_anew_share_their_program():
    def call(x, shift=0, n=2):
        block = BlockSpec((4,), module_map)
        moved = BlockSpec((4,), lambda i: (i + shift,))
        body = functools.partial(module_level, n=n)
        return run(body, OUT, x, grid=2, in_specs=[moved], out_specs=block)

    xlab.clear_caches()
    _TRACED.clear()
    with xlab.observe.record() as session:
        for _ in range(3):
            np.testing.assert_array_equal(call(X), X * 2)
    assert len(_TRACED) == 1
    assert session is not None
    call(X, shift=1)
    assert len(_TRACED) == 2
    np.testing.assert_array_equal(call(X, n=3), X * 3)
    assert len(_TRACED) == 3
    np.testing.assert_array_equal(call(X, n=np.float32(4)), X * 4)
    np.testing.assert_array_equal(call(X), X * 2)
    assert len(_TRACED) == 4


def test_functions_are_the_same_if_they_see_the_same():
    n = 3

    def made(k):
        return lambda i: (i * k + n,)

    assert function_key(made(1)) == function_key(made(1)) != function_key(made(1.0))
    assert function_key(made(1)) != function_key(made(True))
    assert function_key(lambda i: module_map(i)) != function_key(made(1))
    inner = lambda: lambda j: j
    assert function_key(made(inner())) == function_key(made(inner()))
    module = lambda: lambda i: jnp.int32(i)
    assert function_key(module()) == function_key(module())
    assert function_key(made(np.float32)) == function_key(made(np.float32))

    class Sizes:
        n = 3

    for changing in (X, Sizes, Sizes(), pytest, {}):
        with pytest.raises(NotComparable):
            function_key(made(changing))
    with pytest.raises(NotComparable):
        function_key(made([1]))
    with pytest.raises(NotComparable):
        function_key(np.vectorize(abs))


def test_kernels_are_let_go():
    def make():
        def body(x, o):
            o[...] = x[...] + 1

        f = kernel_call(body, OUT, interpret=True, **BLOCKS)
        f(X)
        xlab.jit(f)(X)
        return weakref.ref(body)

    kept = make()
    gc.collect()
    assert kept() is None


# -- aliases --------------------------------------------------------------------------------------------------


def test_k44_an_output_starts_as_its_input():
    got = run(lambda x, o: o.__setitem__(0, 9.0), OUT, X, input_output_aliases={0: 0})
    np.testing.assert_array_equal(got, [9, *range(1, 8)])
    assert X[0] == 0


def test_k44_modes_of_aliases():
    def body(x, o):
        o[...] = x[...] + 1

    copied = run(body, OUT, X, grid=2, input_output_aliases={0: 0})
    np.testing.assert_array_equal(copied, X + 1)
    shared = run(body, OUT, X, grid=2, input_output_aliases={0: 0}, alias_mode="shared")
    np.testing.assert_array_equal(shared, X + 2)
    with pytest.raises(ValueError, match='alias_mode is "copy" or "shared", got \'both\''):
        kernel_call(body, OUT, alias_mode="both")


def test_k44_aliases_count_prefetched_arguments():
    spec = xlab.kernels.PrefetchGridSpec(1, grid=())
    f = kernel_call(
        lambda p, x, o: None, OUT, grid_spec=spec, input_output_aliases={1: 0}, interpret=True
    )
    np.testing.assert_array_equal(f(jnp.zeros(1, "int32"), X), X)
    f = kernel_call(
        lambda p, x, o: None,
        out(3, dtype="int32"),
        grid_spec=spec,
        input_output_aliases={0: 0},
        interpret=True,
    )
    np.testing.assert_array_equal(f(jnp.arange(3), X), [0, 1, 2])


@pytest.mark.parametrize(
    ("aliases", "outputs", "message"),
    [
        ({2: 0}, OUT, r"pair 2: 0, but input 2 is out of range: there are 2 .*\[0, 2\)"),
        ({-1: 0}, OUT, "input -1 is out of range"),
        ({0: 1}, OUT, r"output 1 is out of range: there are 1"),
        ({0: 0}, out(4), r"args\[0\] has type float32\[8\] and outputs has type float32\[4\]"),
        (
            {1: 0},
            {"a": out(8, dtype="int32")},
            r"args\[1\] has type float32\[8\] and outputs\['a'\] has type int32\[8\]",
        ),
        (
            {0: 0, 1: 0},
            OUT,
            r"pairs 0: 0 and 1: 0: outputs cannot start as both args\[0\] and args\[1\]",
        ),
    ],
)
def test_k44_aliases_that_do_not_fit(aliases, outputs, message):
    with pytest.raises(ValueError, match=message):
        run(lambda *refs: None, outputs, X, X, input_output_aliases=aliases)


def test_k44_donated_aliases_need_no_copy():
    f = xlab.jit(
        lambda x: run(double, OUT, x, input_output_aliases={0: 0}, **BLOCKS), donate_argnums=0
    )
    x = jnp.arange(8.0)
    np.testing.assert_array_equal(f(x), X * 2)
    assert x.is_deleted()


# -- the primitive --------------------------------------------------------------------------------------------


def test_k45_parameters():
    cost = CostEstimate(1, 2, 3)
    f = kernel_call(
        double,
        OUT,
        cost_estimate=cost,
        metadata={"b": "2", "a": "1"},
        input_output_aliases={0: 0},
        **BLOCKS,
    )
    params = equation(f, X).params
    assert sorted(params) == [
        "alias_mode", "compiler_params", "cost_estimate", "debug", "grid_mapping", "input_output_aliases", "interpret",
        "jaxpr", "mesh", "metadata", "name", "out_avals",
    ]  # fmt: skip
    assert params["name"] == "double" and params["cost_estimate"] is cost and params["mesh"] is None
    assert params["metadata"] == (("a", "1"), ("b", "2")) and params["input_output_aliases"] == (
        (0, 0),
    )
    hash(tuple(params.items()))


def test_k45_types_of_results():
    aval = xlab.make_jaxpr(kernel_call(double, ANY((8,), "float32")))(X).out_avals[0]
    assert str(aval) == "float32[8]" and aval.memory_space is None and not aval.weak_type
    aval = xlab.make_jaxpr(kernel_call(lambda x, o: None, out(), input_output_aliases={0: 0}))(
        1.0
    ).out_avals[0]
    assert str(aval) == "float32[]" and not aval.weak_type


def test_k45_explicitly_sharded_operands_are_refused():
    mesh = xlab.make_mesh((8,), ("d",), axis_types=(AxisType.Explicit,))
    x = xlab.device_put(X, NamedSharding(mesh, P("d")))
    with pytest.raises(
        ValueError, match=r"args\[0\] .* float32\[8@d\].* all mesh axes must be manual"
    ):
        run(double, OUT, x)


# -- modes ----------------------------------------------------------------------------------------------------


def test_k46_only_interpretation_runs_on_cpus():
    for f in (kernel_call(double, OUT), xlab.jit(kernel_call(double, OUT, interpret=False))):
        with pytest.raises(ValueError, match="only interpret mode is supported on CPU.*double"):
            f(X)
    assert equation(kernel_call(double, OUT), X).params["interpret"] is False


@pytest.mark.parametrize("mode", [True, "compiled", "value", InterpretParams()])
def test_k46_k50_modes(mode):
    np.testing.assert_array_equal(kernel_call(double, OUT, interpret=mode, **BLOCKS)(X), X * 2)
    f = kernel_call(double, OUT, **BLOCKS)
    with interpret_mode(mode):
        np.testing.assert_array_equal(f(X), X * 2)
        np.testing.assert_array_equal(xlab.jit(f)(X), X * 2)
    with pytest.raises(ValueError, match="only interpret mode"):
        f(X)


def test_k46_unknown_modes_and_the_default():
    with pytest.raises(ValueError, match="interpret is False, True .*got 'fast'"):
        kernel_call(double, OUT, interpret="fast")
    f = xlab.jit(kernel_call(double, OUT))
    for value in ("compiled", "value"):
        with flag_context("kernels_default_interpret", value):
            np.testing.assert_array_equal(f(X), X * 2)
    with pytest.raises(ValueError, match="only interpret mode"):
        f(X)
    with pytest.raises(ValueError, match="kernels_default_interpret accepts"):
        config.update("kernels_default_interpret", "fast")


def test_disable_jit():
    with xlab.disable_jit():
        np.testing.assert_array_equal(run(double, OUT, X, **BLOCKS), X * 2)


# -- the compiled path ------------------------------------------------------------------------------------------


def matmul_accumulate(x, y, o):
    @when(program_id(2) == 0)
    def _():
        o[...] = jnp.zeros_like(o)

    o[...] += x[...] @ y[...]


def matmul(n=64, b=16, grid=None):
    return kernel_call(
        matmul_accumulate, out(n, n), grid=(n // b,) * 3, interpret=True,
        in_specs=[BlockSpec((b, b), lambda i, j, k: (i, k)), BlockSpec((b, b), lambda i, j, k: (k, j))],
        out_specs=BlockSpec((b, b), lambda i, j, k: (i, j)),
    )  # fmt: skip


def test_k49_one_loop_that_carries_only_what_is_written():
    x, y = np.random.RandomState(0).rand(2, 64, 64).astype(np.float32)
    f = xlab.jit(matmul())
    np.testing.assert_allclose(f(x, y), x @ y, rtol=1e-5)
    text = f.lower(x, y).as_text()
    assert text.count("stablehlo.while") == 1 and "stablehlo.dynamic_update_slice" in text
    (carry,) = re.findall(r"stablehlo\.while.*?\^bb0\((.*?)\):", text, re.DOTALL)
    assert carry.count("tensor<64x64xf32>") == 1  # of three arrays the output alone
    optimized = f.lower(x, y).compile().as_text()
    copies = re.findall(r"f32\[64,64\]\S* copy\(", optimized.split("ENTRY")[0])
    assert not copies, copies


def test_k49_in_other_programs():
    f = kernel_call(double, OUT, interpret=True, **BLOCKS)
    np.testing.assert_array_equal(
        lax.scan(lambda c, _: (f(c), c.sum()), X, None, length=3)[0], X * 8
    )
    g = xlab.jit(lambda p, x: lax.cond(p, f, lambda x: x, x))
    np.testing.assert_array_equal(g(True, X), X * 2)
    np.testing.assert_array_equal(g(False, X), X)
    np.testing.assert_array_equal(lax.fori_loop(0, 2, lambda i, x: f(x), X), X * 4)
    np.testing.assert_array_equal(xlab.jit(f)(X), X * 2)
    assert xlab.eval_shape(f, X).shape == (8,)
    assert xlab.jit(f).lower(X).compile()(X)[1] == 2


MESH = xlab.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))


def test_k49_in_shard_map():
    x = jnp.arange(64.0)
    f = kernel_call(double, OUT, interpret=True, **BLOCKS)
    mapped = xlab.shard_map(f, mesh=MESH, in_specs=P("d"), out_specs=P("d"), check_vma=False)
    np.testing.assert_array_equal(xlab.jit(mapped)(x), x * 2)


def test_k49_mesh_axes_inside_a_kernel():
    def body(x, o):
        o[...] = x[...] * lax.axis_index("d") + lax.psum(x[...], "d") * program_id(0)

    f = kernel_call(body, OUT, interpret=True, **BLOCKS)
    mapped = xlab.shard_map(f, mesh=MESH, in_specs=P("d"), out_specs=P("d"), check_vma=False)
    x = np.arange(64.0, dtype=np.float32).reshape(8, 8)
    want = x * np.arange(8)[:, None] + x.sum(0) * np.repeat([0, 1], 4)
    np.testing.assert_allclose(xlab.jit(mapped)(jnp.asarray(x.ravel())), want.ravel(), rtol=1e-6)


def test_k41_outputs_in_a_checked_shard_map_say_what_varies():
    def mapped(kind):
        def f(x):
            return kernel_call(
                double,
                xlab.ShapeDtypeStruct((8,), "float32", manual_axis_type=kind),
                interpret=True,
                **BLOCKS,
            )(x)

        return xlab.shard_map(f, mesh=MESH, in_specs=P("d"), out_specs=P("d"))

    x = jnp.arange(64.0)
    with pytest.raises(ValueError, match="outputs of out_shape.*manual_axis_type.*check_vma=False"):
        mapped(None)(x)
    varying = ManualAxisType(varying={"d"})
    np.testing.assert_array_equal(mapped(varying)(x), x * 2)
    assert str(varying)


def test_k49_sharded_arguments_of_a_jit():
    x = xlab.device_put(X, NamedSharding(MESH, P("d")))
    f = kernel_call(double, OUT, interpret=True, **BLOCKS)
    np.testing.assert_array_equal(xlab.jit(f)(x), X * 2)


def test_k49_keys_are_operands():
    keys = xlab.random.split(xlab.random.key(0), 4)

    def body(k, o):
        o[...] = k[...]

    spec = BlockSpec((2,), lambda i: 1 - i)
    got = run(
        body,
        xlab.ShapeDtypeStruct((4,), keys.dtype),
        keys,
        grid=2,
        in_specs=[spec],
        out_specs=BlockSpec((2,), lambda i: i),
    )
    want = xlab.random.key_data(keys)[jnp.array([2, 3, 0, 1])]
    np.testing.assert_array_equal(xlab.random.key_data(got), want)


def test_k49_scalars_and_weak_types():
    got = run(lambda x, o: o.__setitem__(..., x[...] + 1), out(), 1.0)
    assert got.shape == () and float(got) == 2 and not got.weak_type
    got = run(lambda x, o: o.__setitem__(..., x[...] + program_id(0)), out(), np.float32(1), grid=3)
    assert float(got) == 3
    with xlab.enable_x64(True):
        got = run(
            lambda x, o: o.__setitem__(..., x[...] + program_id(0)),
            out(4, dtype="float64"),
            np.ones(4),
            grid=2,
        )
        np.testing.assert_array_equal(got, np.full(4, 2.0))
        assert got.dtype == np.float64


def test_prints_come_in_the_order_of_the_grid(capfd):
    def body(o):
        xlab.debug.print("at {} {}", program_id(0), program_id(1))

    xlab.block_until_ready(run(body, out(1), grid=(2, 2)))
    xlab.effects_barrier()
    assert capfd.readouterr().out.split("\n")[:4] == ["at 0 0", "at 0 1", "at 1 0", "at 1 1"]
    f = xlab.jit(lambda: (run(body, out(1), grid=(1, 2)), 1)[1])  # its result is not used
    f()
    xlab.effects_barrier()
    assert capfd.readouterr().out.split("\n")[:2] == ["at 0 0", "at 0 1"]


# -- what is shown and stored -------------------------------------------------------------------------------------


def test_k51_debug_prints_the_kernel_its_grid_and_the_program_on_values(capsys):
    run(double, OUT, X, debug=True, **BLOCKS)
    text = capsys.readouterr().out
    assert re.search(
        r"The kernel jaxpr of double at .*test_call.py:\d+:\n\{ lambda ; a:Ref\{f32\[4\]\}", text
    )
    assert (
        "The grid mapping:\ngrid=(2,)" in text
        and "args[0]: float32[8] in blocks (Blocked(block_size=4))" in text
    )
    assert re.search(r"The discharged jaxpr:\n\{ lambda ; a:f32\[4\]", text)


def test_k52_names_and_metadata():
    f = kernel_call(
        double, OUT, interpret=True, name="twice", metadata={"team": 'x "y"', "a": "b"}, **BLOCKS
    )
    assert f.__name__ == "twice"
    text = xlab.jit(f).lower(X).as_text()
    assert (
        "@twice" in text
        and r'mhlo.frontend_attributes = {"a" = "b", "team" = "x \22y\22"}'
        in text.replace(r"\"", r"\22")
    )
    assert "twice" in xlab.jit(f).lower(X).compile().as_text()
    np.testing.assert_array_equal(f(X), X * 2)
    for bad in ({"a": 1}, {1: "a"}):
        with pytest.raises(ValueError, match="metadata maps strings to strings"):
            kernel_call(double, OUT, metadata=bad)


@dataclasses.dataclass
class ToyParams:  # without a hash
    stages: int = 2


@dataclasses.dataclass(frozen=True)
class OtherParams:
    rows: int = 1


def test_k53_compiler_params():
    register_lowering_rule(ToyParams, lambda ctx, x, **params: [x], "toy")
    for params in (OtherParams(), {"dimension_semantics": ("parallel",)}):
        f = kernel_call(double, OUT, interpret=True, compiler_params=params, **BLOCKS)
        np.testing.assert_array_equal(f(X), X * 2)
        np.testing.assert_array_equal(f(X), X * 2)
        assert repr(equation(f, X).params["compiler_params"]) == repr(params)
    with pytest.raises(
        ValueError,
        match=r"compiler_params for the platform toy, ToyParams\(stages=3\), and is lowered for cpu",
    ):
        run(double, OUT, X, compiler_params=ToyParams(3))
    with pytest.raises(ValueError, match="compiler_params is an instance of a dataclass"):
        kernel_call(double, OUT, compiler_params=3)
    with pytest.raises(TypeError, match="register_lowering_rule takes the dataclass"):
        register_lowering_rule(3, None, "toy")


def test_k53_rules_of_other_platforms():
    from xlab.kernels.params import lowering_rule

    rule = lambda ctx, x, **params: [x]
    register_lowering_rule(ToyParams, rule, "toy")
    assert (
        lowering_rule("toy", None, "f") is rule and lowering_rule("toy", ToyParams(), "f") is rule
    )
    assert lowering_rule("cpu", OtherParams(), "f") is None
    with pytest.raises(ValueError, match="cannot lower the kernel call of f on platform tpu"):
        lowering_rule("tpu", None, "f")


# -- references and nesting -----------------------------------------------------------------------------------------


def test_k55_captured_references():
    total = xlab.new_ref(jnp.zeros(8))

    def body(x, o):
        total[...] += x[...].sum()
        o[...] = total[0:4]

    f = kernel_call(body, OUT, interpret=True, **BLOCKS)
    np.testing.assert_array_equal(f(X), [6] * 4 + [28] * 4)
    np.testing.assert_array_equal(total[...], [28] * 8)
    np.testing.assert_array_equal(xlab.jit(f)(X), [34] * 4 + [56] * 4)
    np.testing.assert_array_equal(total[...], [56] * 8)
    eqn = equation(f, X)
    assert eqn.params["grid_mapping"].num_captured == 1
    assert {repr(e) for e in eqn.effects} >= {"Write<0>"}
    from xlab.interpreters.discharge import discharge_state

    (eqn,) = discharge_state(xlab.make_jaxpr(lambda r, x: _into(r)(x))(total, X)).eqns
    mapping = eqn.params["grid_mapping"]
    assert mapping.num_captured == 0 and mapping.num_inputs == mapping.num_outputs == 2
    assert eqn.params["input_output_aliases"] == ((0, 0),)
    assert (
        mapping.block_mappings[0].has_trivial_window()
        and mapping.block_mappings[0].memory_space is ANY
    )


def _into(ref):
    def body(x, o):
        ref[0:4] += x[...]
        o[...] = x[...]

    return kernel_call(body, OUT, interpret=True, **BLOCKS)


def test_k55_references_made_in_the_program():
    def f(x):
        ref = xlab.new_ref(jnp.zeros(8))
        y = _into(ref)(x)
        return y, ref[...]

    y, last = xlab.jit(f)(X)
    np.testing.assert_array_equal(y, X)
    np.testing.assert_array_equal(last, [4, 6, 8, 10, 0, 0, 0, 0])


def test_k55_references_as_arguments():
    ref = xlab.new_ref(X + 0)

    def body(r, s, o):
        r[...] = r[...] + s[0]
        o[...] = r[...]

    f = kernel_call(
        body, OUT, grid=2, in_specs=[BLOCK, BlockSpec()], out_specs=BLOCK, interpret=True
    )
    np.testing.assert_array_equal(f(ref, jnp.ones(1)), X + 1)
    np.testing.assert_array_equal(ref[...], X + 1)
    np.testing.assert_array_equal(xlab.jit(f)(ref, jnp.ones(1)), X + 2)
    np.testing.assert_array_equal(ref[...], X + 2)
    with xlab.disable_jit():
        f(ref, jnp.ones(1))
    np.testing.assert_array_equal(ref[...], X + 3)


def test_k55_a_reference_twice():
    ref = xlab.new_ref(jnp.zeros(8))
    with pytest.raises(
        NotImplementedError, match=r"passed twice .* as args\[0\] and as args\[1\]\['a'\].*alias"
    ):
        run(lambda a, b, o: None, OUT, ref, {"a": ref})
    f = xlab.jit(lambda r: run(lambda a, o: r.__setitem__(0, 1.0), OUT, r))
    with pytest.raises(
        NotImplementedError, match=r"captured by the kernel and also passed as args\[0\].*alias"
    ):
        f(ref)
    with pytest.raises((NotImplementedError, ValueError), match=r"args\[0\]"):
        run(lambda a, o: ref.__setitem__(0, 1.0), OUT, ref)


def test_k56_kernels_in_kernels():
    def outer(x, o):
        inner = kernel_call(double, out(4), grid=2, in_specs=[BlockSpec((2,), lambda i: 1 - i)],
                            out_specs=BlockSpec((2,), lambda i: i), interpret=True)  # fmt: skip
        o[...] = inner(x[...]) + program_id(0)

    want = np.float32([4, 6, 0, 2, 13, 15, 9, 11])
    f = kernel_call(outer, OUT, interpret=True, **BLOCKS)
    np.testing.assert_array_equal(f(X), want)
    np.testing.assert_array_equal(xlab.vmap(f)(jnp.stack([X, X]))[1], want)


def test_k56_an_inner_kernel_on_a_reference_of_the_outer():
    def outer(x, o):
        run(double, out(4), x[...])
        kernel_call(lambda r: r.__setitem__(0, 5.0), (), interpret=True)(o)

    got = run(outer, OUT, X, **BLOCKS)
    np.testing.assert_array_equal(np.asarray(got)[[0, 4]], [5, 5])


def test_k57_the_decorator_without_a_mesh():
    @kernel(out_shape=OUT, interpret=True, **BLOCKS)
    def twice(x, o):
        o[...] = x[...] * 2

    np.testing.assert_array_equal(twice(X), X * 2)


def test_typecheck_and_dce():
    f = kernel_call(double, OUT, interpret=True, **BLOCKS)
    with flag_context("enable_checks", True):
        assert len(xlab.make_jaxpr(lambda x: f(x) + 1)(X).eqns) == 2
    closed = xlab.make_jaxpr(lambda x: (f(x), x + 1)[1])(X)
    from xlab.interpreters import partial_eval as pe

    assert [e.primitive.name for e in pe.dce_jaxpr_eqns(closed.jaxpr).eqns] == ["add"]
