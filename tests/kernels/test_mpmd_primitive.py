"""The primitive `mpmd_map` and its rules: types, dead code, recomputation, batches, references, lowering."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import xlab
from tests.kernels.mpmd_examples import (
    F8,
    SHARED,
    TWO,
    S,
    X,
    add_one,
    equations,
    on_two,
    writes_its_input,
)
from xlab import lax
from xlab import numpy as jnp
from xlab.core.check import check_jaxpr
from xlab.core.effects import AccumEffect, ReadEffect, WriteEffect
from xlab.core.jaxpr import ClosedJaxpr
from xlab.core.refs import AbstractRef
from xlab.errors import JaxprTypeError
from xlab.interpreters import partial_eval as pe
from xlab.kernels import (
    CoreMemorySpace,
    CoreMesh,
    interpret_mode,
    mpmd_map,
    mpmd_map_p,
    params,
    register_lowering_rule,
)
from xlab.kernels.mpmd_primitive import kernel_effect

# -- the primitive --------------------------------------------------------------------------------------------


def test_k71_parameters():
    f = on_two(add_one, metadata={"b": "2", "a": "1"}, input_output_aliases={0: 0}, name="n")
    (eqn,) = equations(f, X)
    assert eqn.primitive is mpmd_map_p
    assert eqn.primitive.multiple_results
    params = dict(eqn.params)
    (jaxpr,) = params.pop("jaxprs")
    assert isinstance(jaxpr, ClosedJaxpr)
    assert params == {
        "meshes": (TWO,),
        "external_meshes": (),
        "out_avals": (xlab.core.ShapedArray((8,), np.dtype("float32")),),
        "input_output_aliases": ((0, 0),),
        "compiler_params": None,
        "interpret": "compiled",
        "debug": False,
        "cost_estimate": None,
        "metadata": (("a", "1"), ("b", "2")),
        "name": "n",
        "num_captured": 0,
    }


def test_k71_eagerly_it_is_compiled_even_with_jit_disabled():
    with xlab.disable_jit():
        np.testing.assert_array_equal(on_two(add_one)(X), X + 1)
        ref = xlab.new_ref(X)
        on_two(writes_its_input)(ref)
    np.testing.assert_array_equal(ref[...], X * 4)


def test_k71_a_second_call_traces_nothing():
    traced = []

    def kernel(x, o):
        traced.append(1)
        o[...] = x[...]

    f = on_two(kernel)
    f(X), f(X + 1)
    assert len(traced) == 1


def test_k71_programs_are_shared_by_equal_calls():
    traced = []

    def kernel(x, o):
        traced.append(1)
        o[...] = x[...]

    for _ in range(3):
        on_two(kernel)(X)
    assert len(traced) == 1
    on_two(kernel, name="other")(X)
    on_two(kernel, (F8,))(X)
    assert len(traced) == 3


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"cost_estimate": 3}, "cost_estimate is a CostEstimate, got 3"),
        ({"metadata": {"a": 1}}, "metadata maps strings to strings"),
        ({"compiler_params": 3}, "compiler_params is an instance of a dataclass"),
        ({"interpret": "fast"}, "interpret is False, True"),
    ],
)
def test_k71_options_are_checked(option, words):
    with pytest.raises(ValueError, match=words):
        mpmd_map([(TWO, add_one)], F8, **option)


def test_k71_debug_prints_the_jaxprs(capsys):
    on_two(add_one, debug=True)(X)
    assert "jaxpr for vector" in capsys.readouterr().out


@dataclasses.dataclass(frozen=True)
class Params:
    has_side_effects: bool = False


def test_k72_types_and_effects():
    def kernel(a, b, x, o):
        o[...] = a[...] + x[...]
        x[...] = a[...]
        b[...] = o[...]
        b.addupdate(a[0], 0)

    def f(x):
        a, b = xlab.new_ref(x), xlab.new_ref(x)
        return on_two(kernel, input_output_aliases={2: 0})(a, b, x)

    eqn = next(e for e in equations(f, X) if e.primitive is mpmd_map_p)
    assert eqn.effects == {ReadEffect(0), WriteEffect(1), AccumEffect(1)}
    assert [str(v.aval) for v in eqn.outvars] == ["float32[8]"]
    aval = AbstractRef(xlab.core.ShapedArray((8,), np.dtype("float32")), SHARED)
    outs, effects = mpmd_map_p.abstract(
        (aval,), {**equations(on_two(add_one, input_output_aliases={0: 0}), X)[0].params}
    )
    assert str(outs[0]) == "float32[8]"
    assert effects == {ReadEffect(0)}


def test_k72_a_mesh_discharges_effects():
    class Silent(CoreMesh):
        def discharges_effect(self, effect):
            return effect == xlab.core.effects.debug_effect

    def kernel(x, o):
        xlab.debug.callback(lambda: None)

    (loud,) = equations(mpmd_map([(TWO, kernel)], F8, interpret=True), X)
    (silent,) = equations(mpmd_map([(Silent("c", 2), kernel)], F8, interpret=True), X)
    assert loud.effects == {xlab.core.effects.debug_effect}
    assert not silent.effects


def test_k72_side_effects_are_an_effect():
    (eqn,) = equations(on_two(add_one, compiler_params=Params(True)), X)
    assert eqn.effects == {kernel_effect}
    (eqn,) = equations(on_two(add_one, compiler_params={"has_side_effects": True}), X)
    assert eqn.effects == {kernel_effect}
    (eqn,) = equations(on_two(add_one, compiler_params=Params()), X)
    assert not eqn.effects
    got = xlab.jit(on_two(add_one, compiler_params=Params(True)))(X)
    np.testing.assert_array_equal(got, X + 1)


def test_k73_typecheck():
    def kernel(x, o):
        o[lax.axis_index("c")] = x[lax.axis_index("c")]

    other = CoreMesh("d", 2, "scalar")
    f = mpmd_map([(TWO, kernel), (other, lambda x, o: None)], F8, interpret=True)
    closed = xlab.make_jaxpr(f)(X)
    check_jaxpr(closed)
    (eqn,) = closed.eqns
    wrong = eqn.replace(params={**eqn.params, "out_avals": eqn.params["out_avals"] * 2})
    with pytest.raises(JaxprTypeError, match="mpmd_map.*binds results of types"):
        check_jaxpr(ClosedJaxpr(closed.jaxpr.replace(eqns=[wrong]), closed.consts))


def test_k74_never_pruned():
    closed = xlab.make_jaxpr(lambda x, y: (on_two(add_one)(x), y)[1])(X, X)
    assert [e.primitive for e in closed.eqns] == [mpmd_map_p]
    new, used = pe.dce_jaxpr(closed.jaxpr, [False])
    assert [e.primitive for e in new.eqns] == [mpmd_map_p]
    assert used == [True, False]

    def unused(x, y):
        on_two(lambda a, b, o: None)(x, y)
        return x

    new, used = pe.dce_jaxpr(xlab.make_jaxpr(unused)(X, X).jaxpr, [True])
    assert used == [True, True]


def test_k75_unknown_operands_make_all_of_it_wait():
    def f(x, y):
        return on_two(add_one)(x), on_two(lambda a, b, o: o.__setitem__(..., a[...] + b[...]))(x, y)

    closed = xlab.make_jaxpr(f)(X, X)
    known, unknown, unknown_out, _ = pe.split_jaxpr(closed, [False, True])
    assert unknown_out == [False, True]
    assert [e.primitive for e in known.eqns] == [mpmd_map_p]
    assert [e.primitive for e in unknown.eqns] == [mpmd_map_p]


@pytest.mark.parametrize("policy", [None, xlab.checkpoint_policies.everything_saveable])
def test_k75_the_policy_of_remat_decides(policy):
    @xlab.custom_jvp
    def doubled(x):
        return on_two(lambda x, o: o.__setitem__(..., x[...] * 2))(x)

    doubled.defjvp(lambda primals, tangents: (doubled(*primals), tangents[0] * 2))

    def loss(x):
        # Its second use needs the value of the first.
        return (jnp.sin(doubled(x)) * doubled(x)).sum()

    want = xlab.grad(lambda x: (jnp.sin(2 * x) * 2 * x).sum())(X)
    got = xlab.grad(xlab.checkpoint(loss, policy=policy))(X)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    text = str(xlab.make_jaxpr(xlab.grad(xlab.checkpoint(loss, policy=policy)))(X))
    again = text.split("remat2", 1)[1] if "remat2" in text else ""
    assert ("mpmd_map[" in again) == (policy is None)


def test_k75_a_kernel_on_references_runs_in_both_passes():
    def f(x):
        ref = xlab.new_ref(x, kind="no_grad_no_remat")

        def kernel(r):
            r[...] = r[...] * 3

        mpmd_map([(CoreMesh("c", 1), kernel)], interpret=True)(ref)
        return (ref[...] * x).sum()

    # No derivative goes through the kernel, so only the other factor has one.
    def stopped(x):
        return f(lax.stop_gradient(x)) + 0 * x.sum()

    np.testing.assert_array_equal(xlab.grad(xlab.checkpoint(stopped))(X), np.zeros(8))
    np.testing.assert_array_equal(xlab.checkpoint(f)(X), (3 * X * X).sum())


@pytest.mark.parametrize("saved", ["everything", "mpmd_map", "get"])
def test_k75_whatever_the_policy_saves(saved):
    def policy(prim, *_, **__):
        return saved in ("everything", prim.name)

    def f(x):
        ref = xlab.new_ref(jnp.sin(lax.stop_gradient(x)), kind="no_grad_no_remat")

        def kernel(r, o):
            o[...] = r[...]
            r[...] = r[...] * 3

        old = mpmd_map([(CoreMesh("c", 1), kernel)], F8, interpret=True)(ref)
        return (jnp.cos(x) * (ref[...] + old)).sum()

    np.testing.assert_allclose(
        xlab.grad(xlab.checkpoint(f, policy=policy))(X), -np.sin(X) * 4 * np.sin(X), atol=1e-6
    )


# -- batches and derivatives ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("jitted", [False, True])
def test_k76_a_batch_is_a_loop(n, jitted):
    def kernel(x, y, a, b):
        i = lax.axis_index("c")
        a[i] = x[i] * y[0]
        b[0] = x[1] - y[1]

    one = on_two(kernel, (S((2,), "float32"), S((1,), "float32")))
    xs = np.random.default_rng(0).normal(size=(2, n)).astype("float32")
    y = np.float32([3, 4])
    f = xlab.vmap(one, in_axes=(1, None), out_axes=(0, 1))
    a, b = (xlab.jit(f) if jitted else f)(xs, y)
    np.testing.assert_array_equal(a, xs.T * 3)
    np.testing.assert_array_equal(b, xs[1][None] - 4)


@pytest.mark.parametrize("n", [1, 3])
def test_k76_references_have_an_array_per_example(n):
    def f(x):
        ref = xlab.new_ref(x)
        out = on_two(writes_its_input)(ref)
        return out, ref[...]

    xs = np.arange(8 * n, dtype=np.float32).reshape(n, 8)
    out, left = xlab.vmap(f)(xs)
    np.testing.assert_array_equal(out, xs * 4)
    np.testing.assert_array_equal(left, xs * 4)


def test_k76_two_vmaps():
    xs = np.arange(48, dtype=np.float32).reshape(2, 3, 8)
    np.testing.assert_array_equal(xlab.vmap(xlab.vmap(on_two(add_one)))(xs), xs + 1)


def test_k76_no_example_writes_for_the_others():
    ref = xlab.new_ref(jnp.zeros(8))

    def kernel(x, r, o):
        r[...] = x[...]

    with pytest.raises(ValueError, match=r"(?s)unbatched.*argument"):
        xlab.vmap(lambda x: on_two(kernel)(x, ref))(np.ones((2, 8), np.float32))


def test_k76_there_is_no_derivative():
    f = on_two(add_one)
    with pytest.raises(NotImplementedError, match="mpmd_map has no derivative.*custom_vjp"):
        xlab.jvp(f, (X,), (X,))
    with pytest.raises(NotImplementedError, match="mpmd_map has no derivative"):
        xlab.grad(lambda x: f(x).sum())(X)
    # Where nothing is differentiated there is nothing to refuse.
    got = xlab.grad(lambda x: (f(lax.stop_gradient(x)) * x).sum())(X)
    np.testing.assert_array_equal(got, X + 1)


# -- references -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jitted", [False, True])
def test_k77_references_go_in_and_come_back(jitted):
    """[D]: the reference's interpreter does not write them back."""

    def kernel(x, r, o):
        i = lax.axis_index("c")
        o[i] = r[i] + x[i]
        r[i] = x[i] * 10

    def f(x):
        ref = xlab.new_ref(x + 1)
        out = on_two(kernel, S((2,), "float32"))(x, ref)
        return out, ref[...]

    out, left = (xlab.jit(f) if jitted else f)(X)
    np.testing.assert_array_equal(out, X[:2] * 2 + 1)
    np.testing.assert_array_equal(left, [0, 10, *X[2:] + 1])


def test_k77_a_discharged_program_has_aliased_outputs():
    def kernel(r, o):
        r[0] = r[1]

    def f(x):
        ref = xlab.new_ref(x)
        on_two(kernel)(ref)
        return ref[...]

    closed = xlab.interpreters.discharge.discharge_state(xlab.make_jaxpr(f)(X))
    (eqn,) = [e for e in closed.eqns if e.primitive is mpmd_map_p]
    assert eqn.params["input_output_aliases"] == ((0, 1),)
    assert len(eqn.params["out_avals"]) == 2
    assert not eqn.effects
    (jaxpr,) = eqn.params["jaxprs"]
    assert len(jaxpr.in_avals) == 3


def test_k77_partly_discharged():
    def kernel(a, b, o):
        a[0] = b[0]
        b[1] = 5.0

    def f(a, b):
        return on_two(kernel)(a, b)

    ref = AbstractRef(xlab.core.ShapedArray((8,), np.dtype("float32")))
    closed = ClosedJaxpr(*pe.trace_to_jaxpr(lambda a, b: [f(a, b)], [ref, ref]))
    new = xlab.interpreters.discharge.discharge_state(closed, [True, False])
    assert [type(a) is AbstractRef for a in new.in_avals] == [False, True]
    assert len(new.out_avals) == 2
    assert {type(e) for e in new.effects} == {ReadEffect, WriteEffect}


# -- lowering -------------------------------------------------------------------------------------------------


def test_k79_only_interpreted_on_cpu():
    with pytest.raises(ValueError, match="only interpret mode is supported on CPU.*interpret=True"):
        mpmd_map([(TWO, add_one)], F8)(X)
    with interpret_mode():
        np.testing.assert_array_equal(mpmd_map([(TWO, add_one)], F8)(X), X + 1)


def test_k79_one_platform_at_a_time():
    f = xlab.jit(on_two(add_one))
    with pytest.raises(NotImplementedError, match="mpmd_map.*multi-platform"):
        xlab.export.export(f, platforms=["cpu", "cuda"])(X)
    with pytest.raises(ValueError, match="cannot lower the kernel call of add_one on platform tpu"):
        xlab.export.export(f, platforms=["tpu"])(X)
    assert xlab.export.export(f, platforms=["cuda"])(X).platforms == ("cuda",)


@pytest.fixture
def toy_rule():
    """A platform of which a rule is registered: it hands its first operand on, and keeps its parameters."""
    seen = []

    def rule(ctx, *operands, **params):
        seen.append(params)
        return operands[:1]

    register_lowering_rule(ToyParams, rule, "tpu")
    yield seen
    del params._rules["tpu"]


@dataclasses.dataclass(frozen=True)
class ToyParams:
    dimension_semantics: tuple | None = None
    stages: int = 2


def test_k79_the_rule_of_a_platform_gets_a_kernel_call_over_the_mesh(toy_rule):
    mesh = CoreMesh("c", 2, dimension_semantics=("parallel",), kernel_type="toy")
    f = mpmd_map([(mesh, add_one)], F8, compiler_params=ToyParams(), name="mine")
    assert xlab.export.export(xlab.jit(f), platforms=["tpu"])(X).platforms == ("tpu",)
    (given,) = toy_rule
    assert given["mesh"] is mesh
    assert given["grid_mapping"].grid == (2,)
    assert given["compiler_params"] == ToyParams(("parallel",))
    assert given["name"] == "mine"
    two = mpmd_map([(mesh, add_one), (CoreMesh("d", 1, "scalar"), add_one)], F8)
    with pytest.raises(
        NotImplementedError, match="multiple mesh/function pairs are not currently supported"
    ):
        xlab.export.export(xlab.jit(two), platforms=["tpu"])(X)
    with pytest.raises(ValueError, match="compiler_params for the platform tpu"):
        on_two(add_one, compiler_params=ToyParams())(X)


def test_k52_name_and_metadata_are_in_the_program():
    text = xlab.jit(on_two(add_one, name="mine", metadata={"a": "b"})).lower(X).as_text()
    assert "@mine" in text
    assert 'mhlo.frontend_attributes = {"a" = "b"}' in text


def test_k79_external_meshes_run_nothing():
    external = CoreMemorySpace(SHARED, CoreMesh("d", 3, "scalar"))
    f = on_two(lambda x, o, s: None, scratch_types=[external((2,), "float32")])
    with pytest.raises(NotImplementedError, match=r"external.*CoreMesh\(d=3; scalar\)"):
        f(X)


def over_devices(f, check, x):
    mesh = xlab.make_mesh((4,), ("d",), axis_types=(xlab.sharding.AxisType.Auto,))
    spec = xlab.sharding.PartitionSpec("d")
    return xlab.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=check)(x)


@pytest.mark.parametrize("check", [False, True])
def test_k99_on_several_devices(check):
    def kernel(x, o):
        i = lax.axis_index("c")
        o[i] = x[i] * 2

    def on_refs(x):
        ref = xlab.new_ref(x)

        def kernel(r):
            i = lax.axis_index("c")
            r[i] = r[i] * 2

        on_two(kernel, ())(ref)
        return ref[...]

    varying = xlab.sharding.ManualAxisType(varying={"d"})
    out = S((2,), "float32", manual_axis_type=varying if check else None)
    np.testing.assert_array_equal(over_devices(on_two(kernel, out), check, X), X * 2)
    np.testing.assert_array_equal(over_devices(on_refs, check, X), X * 2)


def test_k41_a_checked_shard_map_wants_to_know_what_varies():
    with pytest.raises(ValueError, match="outputs of out_shape.*manual_axis_type"):
        over_devices(on_two(add_one, S((2,), "float32")), True, X)


def test_k45_explicit_axes_are_refused():
    mesh = xlab.make_mesh((2,), ("d",))
    x = xlab.device_put(X, xlab.sharding.NamedSharding(mesh, xlab.sharding.PartitionSpec("d")))
    with pytest.raises(ValueError, match=r"args\[0\].*Explicit"):
        on_two(add_one)(x)
