"""`mpmd_map`: functions on meshes of cores. What the reference runs is compared with it; the rest has laws of its own."""

from __future__ import annotations

import dataclasses
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import xlab
from xlab import lax
from xlab import numpy as jnp
from xlab.core.check import check_jaxpr
from xlab.core.effects import AccumEffect, ReadEffect, WriteEffect
from xlab.core.jaxpr import ClosedJaxpr, JaxprEqn
from xlab.core.refs import AbstractRef
from xlab.errors import JaxprTypeError
from xlab.interpreters import partial_eval as pe
from xlab.kernels import (
    ANY,
    CoreMemorySpace,
    CoreMesh,
    MemorySpace,
    interpret_mode,
    mpmd_map,
    mpmd_map_p,
    num_programs,
    params,
    program_id,
    register_lowering_rule,
)
from xlab.kernels.failures import KernelWarning
from xlab.kernels.mpmd_primitive import kernel_effect
from xlab.kernels.pairs import pairs_of

LOCAL, SHARED = MemorySpace.LOCAL, MemorySpace.SHARED
S = xlab.ShapeDtypeStruct
F8 = S((8,), "float32")
TWO = CoreMesh("c", 2)
X = np.arange(8, dtype=np.float32)


def on_two(kernel, out=F8, **options):
    return mpmd_map([(TWO, kernel)], out, interpret=True, **options)


def add_one(x, o):
    o[...] = x[...] + 1


def equations(f, *args):
    return xlab.make_jaxpr(f)(*args).eqns


# -- the reference --------------------------------------------------------------------------------------------


def ours():
    return SimpleNamespace(
        jax=xlab, jnp=jnp, lax=lax, S=S, local=LOCAL, mesh=TWO, run=on_two, map=mpmd_map
    )


def theirs():
    jax = pytest.importorskip("jax")
    from jax._src.pallas import mpmd
    from jax.experimental.pallas import tpu

    mesh = tpu.create_tensorcore_mesh("c", num_cores=2)
    return SimpleNamespace(
        jax=jax,
        jnp=jax.numpy,
        lax=jax.lax,
        S=jax.ShapeDtypeStruct,
        local=tpu.VMEM,
        mesh=mesh,
        run=lambda kernel, out=jax.ShapeDtypeStruct((8,), "float32"), **options: mpmd._mpmd_map(
            [(mesh, kernel)], out, interpret=True, **options
        ),
        map=mpmd._mpmd_map,
    )


def keyword_scratch(x, o, *, s):
    s[...] = x[...] * 3
    o[...] = s[...] + 1


def positional_scratch(x, o, s, t):
    s[...] = x[...] * 3
    t[0] = s[2]
    o[...] = s[...] + t[0]


def two_outputs(x, a, b):
    a[...] = x[...]
    b[...] = -x[...]


def tree_output(x, o):
    o["a"][...] = x[...]
    o["b"][1] = x[2]


def nested_outputs(x, pair, c):
    pair[0][...] = x[...]
    pair[1][...] = x[...] * 2
    c[...] = x[...] * 3


def argument_tree(tree, y, o):
    o[...] = tree["a"][0][...] * tree["b"][...] + y[0]


def writes_its_input(x, o):
    x[...] = x[...] * 2
    o[...] = x[...]


def first_is_seven(x, o):
    o[0] = 7.0


def size(n):
    def kernel(x, o):
        o[...] = x[...] * 0 + n.lax.axis_size("c")

    return kernel


ROWS = {
    "one pair": lambda n: n.run(add_one)(X),
    "under jit": lambda n: n.jax.jit(lambda x: n.run(add_one)(x) * 2)(X),
    "dictionary of scratch": lambda n: n.run(
        keyword_scratch, scratch_types={"s": n.local((8,), "float32")}
    )(X),
    "sequence of scratch": lambda n: n.run(
        positional_scratch, scratch_types=[n.local((8,), "float32"), n.local((1,), "float32")]
    )(X),
    "tuple of outputs": lambda n: n.run(two_outputs, (n.S((8,), "float32"),) * 2)(X),
    "list of outputs": lambda n: n.run(two_outputs, [n.S((8,), "float32")] * 2)(X),
    "tree of outputs": lambda n: n.run(
        tree_output, {"b": n.S((2,), "float32"), "a": n.S((8,), "float32")}
    )(X),
    "nested outputs": lambda n: n.run(
        nested_outputs,
        ((n.S((8,), "float32"), n.S((8,), "float32")), n.S((8,), "float32")),
    )(X),
    "tree of arguments": lambda n: n.run(argument_tree)({"b": X, "a": [X + 1]}, X[:1] + 5),
    "no outputs": lambda n: n.run(lambda x: None, ())(X),
    "an input that is written": lambda n: n.run(writes_its_input)(X),
    "an alias": lambda n: n.run(first_is_seven, input_output_aliases={0: 0})(X),
    "axis_size": lambda n: n.run(size(n))(X),
    "a batch of one": lambda n: n.jax.vmap(n.run(add_one))(X[None]),
    "a batch of one, in the second place": lambda n: n.jax.vmap(
        n.run(two_outputs, (n.S((8,), "float32"),) * 2), in_axes=1
    )(X[:, None]),
    "unbatched under vmap": lambda n: n.jax.vmap(lambda y: n.run(add_one)(X) + y)(
        n.jnp.arange(2.0)
    ),
    "an output in a space of its own": lambda n: n.run(add_one, n.local((8,), "float32"))(X),
}


@pytest.mark.reference
@pytest.mark.parametrize("row", ROWS)
def test_k103_values_are_those_of_the_reference(row):
    """K62, K63, K65, K69, K76 where the reference has them."""
    want, got = ROWS[row](theirs()), ROWS[row](ours())
    flat_want, flat_got = pytest.importorskip("jax").tree.leaves(want), xlab.tree.leaves(got)
    assert len(flat_want) == len(flat_got)
    assert type(got) is type(want) or not isinstance(want, (tuple, list, dict))
    for w, g in zip(flat_want, flat_got):
        assert str(g.dtype) == str(w.dtype)
        np.testing.assert_array_equal(np.asarray(g), np.asarray(w))


@pytest.mark.parametrize("row", ROWS)
def test_k86_the_value_interpreter_gives_the_same(row):
    want = ROWS[row](ours())
    with interpret_mode("value"), warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelWarning)
        got = ROWS[row](ours())
    for w, g in zip(xlab.tree.leaves(want), xlab.tree.leaves(got), strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_array_equal(g, w)


def captures(n):
    array = n.jnp.ones(8)

    def kernel(x, o):
        o[...] = x[...] + array

    return kernel


def passes_twice(n):
    def f(x):
        ref = n.jax.new_ref(x)
        return n.run(lambda a, b, o: None)(ref, ref)

    return n.jax.jit(f)(X)


def passes_what_it_captures(n):
    def f(x):
        ref = n.jax.new_ref(x)

        def kernel(a, o):
            o[...] = a[...] + ref[...]

        return n.run(kernel)(ref)

    return n.jax.jit(f)(X)


ERRORS = {
    "no pair": (lambda n: n.map([], F8, interpret=True)(X), "at least one mesh/function pair"),
    "a result": (lambda n: n.run(lambda x, o: x[...])(X), "should return None"),
    "an array captured": (lambda n: n.run(captures(n))(X), "captures"),
    "not on CPU": (lambda n: n.map([(n.mesh, add_one)], n.S((8,), "float32"))(X), "interpret mode is supported on CPU"),
    "an output of no type": (lambda n: n.run(add_one, 3)(X), ""),
    "no array": (lambda n: n.run(add_one)("abc"), ""),
    "a reference twice": (passes_twice, ""),
    "captured and passed": (passes_what_it_captures, "alias"),
    "a keyword": (lambda n: n.run(add_one)(X, y=X), "unexpected keyword argument 'y'"),
    "a captured number under vmap": (
        lambda n: n.jax.vmap(lambda x, s: n.run(lambda x, o: o.__setitem__(..., x[...] * s))(x))(
            X[None], n.jnp.ones(1)
        ),
        "closed?.over|closes over",
    ),
}  # fmt: skip


@pytest.mark.reference
@pytest.mark.parametrize("row", ERRORS)
def test_k103_errors_are_those_of_the_reference(row):
    """K62, K66, K67, K76, K46: class, and words where there are any."""
    run, words = ERRORS[row]
    with pytest.raises(Exception) as want:
        run(theirs())
    with pytest.raises(Exception) as got:
        run(ours())
    assert isinstance(got.value, want.type)
    got.match(f"(?i){words}")


# -- arguments ------------------------------------------------------------------------------------------------


def test_k62_both_spellings():
    for out in ({"out_shapes": F8}, {"out_types": F8}):
        for scratch in ("scratch_shapes", "scratch_types"):
            f = mpmd_map(
                [(TWO, positional_scratch)],
                **out,
                **{scratch: [LOCAL((8,), "float32"), LOCAL((1,), "float32")]},
                interpret=True,
            )
            np.testing.assert_array_equal(f(X), X * 3 + 6)


@pytest.mark.parametrize(
    "both",
    [
        {"out_shapes": F8, "out_types": F8},
        {"out_shapes": F8, "scratch_shapes": (), "scratch_types": ()},
    ],
)
def test_k62_one_spelling_at_a_time(both):
    with pytest.raises(TypeError, match="two names of one argument"):
        mpmd_map([(TWO, add_one)], **both)


def test_k62_pairs_are_pairs():
    with pytest.raises(ValueError, match="at least one mesh/function pair"):
        mpmd_map([], F8)
    with pytest.raises(TypeError, match=r"pairs \(mesh, function\)"):
        mpmd_map([TWO], F8)
    with pytest.raises(TypeError, match=r"a mesh of cores .* got 3 of type int"):
        mpmd_map([(3, add_one)], F8)


def test_k62_no_outputs_by_default():
    ref = xlab.new_ref(X)

    def kernel(x):
        x[...] = x[...] + 1

    assert mpmd_map([(CoreMesh("c", 1), kernel)], interpret=True)(ref) == ()
    np.testing.assert_array_equal(ref[...], X + 1)


@pytest.mark.parametrize(
    ("aliases", "out", "words"),
    [
        ({1: 0}, F8, r"input 1 is out of range.*1 flat inputs"),
        ({-1: 0}, F8, "out of range"),
        ({0: 2}, F8, r"output 2 is out of range.*1 flat outputs"),
        ({0: 0}, S((8,), "int32"), r"args\[0\] has type float32\[8\] and outputs has type int32\[8\]"),
        ({0: 0}, S((4,), "float32"), r"args\[0\] has type float32\[8\] and outputs has type float32\[4\]"),
    ],
)  # fmt: skip
def test_k44_aliases_are_checked(aliases, out, words):
    with pytest.raises(ValueError, match=words):
        on_two(first_is_seven, out, input_output_aliases=aliases)(X)


def test_k44_an_output_starts_as_one_input():
    with pytest.raises(ValueError, match=r"outputs cannot start as both args\[0\] and args\[1\]"):
        on_two(lambda x, y, o: None, input_output_aliases={0: 0, 1: 0})(X, X)


def test_k63_all_functions_get_the_same_references():
    seen = []

    def kernel(*refs, s):
        seen.append([r.aval for r in (*refs, s)])

    other = CoreMesh("d", 1, "scalar")
    mpmd_map(
        [(TWO, kernel), (other, kernel)],
        (F8, {"a": F8})[:1],
        scratch_types={"s": SHARED((2,), "int32")},
        interpret=True,
    )(X)
    assert seen[0] == seen[1]
    assert [str(a) for a in seen[0]] == ["Ref<any>{float32[8]}"] * 2 + ["Ref<shared>{int32[2]}"]


# -- memory spaces --------------------------------------------------------------------------------------------


def spaces_seen(meshes, *args, out=F8):
    seen = []

    def kernel(*refs):
        seen.append([str(r.aval.memory_space) for r in refs])

    mpmd_map([(m, kernel) for m in meshes], out, interpret=True)(*args)
    return seen[0]


def test_k64_a_space_of_its_own_or_that_of_the_mesh():
    mesh = CoreMesh("c", 1, default_memory_space=SHARED)
    assert spaces_seen([mesh], X) == ["shared", "shared"]
    assert spaces_seen([mesh], X, out=ANY((8,), "float32")) == ["shared", "any"]
    assert spaces_seen([mesh], xlab.new_ref(X, memory_space=ANY)) == ["any", "shared"]


def test_k64_meshes_with_different_defaults_need_it_said():
    meshes = [CoreMesh("c", 1), CoreMesh("d", 1, "scalar", default_memory_space=SHARED)]
    with pytest.raises(ValueError, match=r"args\[0\].*names no memory space.*any.*shared"):
        spaces_seen(meshes, X, out=ANY((8,), "float32"))
    with pytest.raises(ValueError, match="outputs.*names no memory space"):
        spaces_seen(meshes, xlab.new_ref(X, memory_space=ANY))
    given = spaces_seen(meshes, xlab.new_ref(X, memory_space=SHARED), out=ANY((8,), "float32"))
    assert given == ["shared", "any"]


@pytest.mark.parametrize("what", ["out_types", "scratch_types"])
def test_k64_what_is_no_type_of_an_array_is_refused(what):
    with pytest.raises(ValueError, match="expected the type of an array.* got 3 of type int"):
        mpmd_map([(TWO, add_one)], **{"out_types": F8, what: [3]}, interpret=True)(X)


def test_k65_scratch_of_several_meshes_belongs_to_a_core_or_is_shared():
    other = CoreMesh("d", 1, "scalar")

    def run(space):
        def kernel(x, o, s):
            o[...] = x[...]

        return mpmd_map(
            [(TWO, kernel), (other, kernel)],
            F8,
            scratch_types=[space((2,), "float32")],
            interpret=True,
        )(X)

    for space in (LOCAL, MemorySpace.DEFAULT):
        with pytest.raises(
            NotImplementedError, match=rf"requires .*core_type.*scratch\[0\].*{space}"
        ):
            run(space)
    for space in (SHARED, LOCAL @ TWO, CoreMemorySpace(SHARED, other)):
        np.testing.assert_array_equal(run(space), X)


def test_k65_memory_of_a_mesh_is_for_its_own_cores():
    other = CoreMesh("d", 1, "scalar")

    def kernel(x, o, s):
        s[0] = x[0]

    with pytest.raises(ValueError, match=r"scratch\[0\], in memory space local@vector, belongs to"):
        mpmd_map(
            [(TWO, kernel), (other, kernel)],
            F8,
            scratch_types=[(LOCAL @ TWO)((2,), "float32")],
            interpret=True,
        )(X)


# -- what kernels close over ----------------------------------------------------------------------------------


def test_k66_inputs_are_references():
    eqn = equations(on_two(add_one), X)[0]
    closed = xlab.make_jaxpr(lambda x, y: ())(X, X)
    with pytest.raises(TypeError, match=r"Ref inputs only, but input 0 .* has type float32\[8\]"):
        mpmd_map_p.bind(X, **{**eqn.params, "jaxprs": (closed,)})


def test_k66_a_result_is_refused_with_its_tree_and_line():
    def returns(x, o):
        return {"a": x[...]}

    with pytest.raises(ValueError, match=r"returns at .*test_mpmd.py:\d+ should return None.*'a'"):
        on_two(returns)(X)


def test_k66_numbers_may_be_captured_and_arrays_not():
    three, four = jnp.float32(3), np.float32(4)

    def kernel(x, o):
        o[...] = x[...] * three + four

    np.testing.assert_array_equal(on_two(kernel)(X), X * 3 + 4)

    def traced(x, s):
        def kernel(x, o):
            o[...] = x[...] * s

        return on_two(kernel)(x)

    np.testing.assert_array_equal(xlab.jit(traced)(X, 5.0), X * 5)
    with pytest.raises(ValueError, match=r"captures constants float32\[8\].*pass them as inputs"):
        xlab.jit(traced)(X, X)


def test_k67_captured_references_are_operands_once():
    shared = xlab.new_ref(jnp.zeros(2))

    def one(x, o):
        shared[0] = x[0] + 1

    def two(x, o):
        shared[1] = shared[0] + 1
        o[...] = x[...]

    meshes = CoreMesh("a", 1), CoreMesh("b", 1, "scalar")
    f = mpmd_map(list(zip(meshes, (one, two))), F8, interpret=True)
    (eqn,) = equations(f, X)
    assert len(eqn.invars) == 2
    for jaxpr in eqn.params["jaxprs"]:
        assert not jaxpr.consts
        assert [str(a) for a in jaxpr.in_avals] == [
            "Ref<any>{float32[8]}",
            "Ref{float32[2]}",
            "Ref<any>{float32[8]}",
        ]
        assert jaxpr.out_avals == []
    np.testing.assert_array_equal(f(X), X)
    np.testing.assert_array_equal(shared[...], [1, 2])


@pytest.mark.parametrize("jitted", [False, True])
def test_k67_a_reference_is_used_in_one_way(jitted):
    def twice(x):
        ref = xlab.new_ref(x)
        return on_two(lambda a, b, o: None)(ref, ref)

    def captured(x):
        ref = xlab.new_ref(x)

        def kernel(a, o):
            o[...] = ref[...]

        return on_two(kernel)([ref])

    wrap = xlab.jit if jitted else lambda f: f
    with pytest.raises(NotImplementedError, match=r"args\[0\] and as args\[1\].*alias"):
        wrap(twice)(X)
    with pytest.raises(NotImplementedError, match=r"also passed as args\[0\]\[0\].*alias"):
        wrap(captured)(X)


def test_k68_external_meshes():
    external = CoreMesh(("d", "e"), (3, 2), "scalar")

    def kernel(x, o, s):
        o[...] = x[...] * lax.axis_size("e")

    space = CoreMemorySpace(SHARED, external)
    f = on_two(kernel, scratch_types=[space((2,), "float32")])
    (eqn,) = equations(f, X)
    assert eqn.params["external_meshes"] == (external,)
    assert len(eqn.params["jaxprs"]) == 1
    clash = CoreMemorySpace(SHARED, CoreMesh("c", 5, "scalar"))
    with pytest.raises(ValueError, match="axis 'c' has size 2 in one and 5"):
        on_two(kernel, scratch_types=[clash((2,), "float32")])(X)


# -- inside a kernel ------------------------------------------------------------------------------------------


def test_k69_axes_of_the_mesh_are_bound():
    mesh = CoreMesh(("a", "b"), (2, 4))

    def kernel(x, o):
        i, j = lax.axis_index("a"), lax.axis_index("b")
        o[i, j] = i * 100 + j * 10 + lax.axis_index(("a", "b")) + lax.axis_size(("a", "b")) * 1000

    got = mpmd_map([(mesh, kernel)], S((2, 4), "int32"), interpret=True)(X)
    i, j = np.mgrid[:2, :4]
    np.testing.assert_array_equal(got, i * 100 + j * 10 + (i * 4 + j) + 8000)


def test_k69_program_id_is_the_place_along_an_axis_of_the_own_mesh():
    mesh = CoreMesh(("a", "b"), (2, 3))

    def kernel(o):
        o[program_id(0), program_id(1)] = program_id(1) + num_programs(1) * 10

    got = mpmd_map([(mesh, kernel)], S((2, 3), "int32"), interpret=True)()
    np.testing.assert_array_equal(got, [[30, 31, 32]] * 2)
    with pytest.raises(ValueError, match=r"program_id\(2\).*grid \(2, 3\)"):
        mpmd_map([(mesh, lambda o: program_id(2))], S((), "int32"), interpret=True)()


def test_k69_axes_of_other_meshes_have_a_size_only():
    other = CoreMesh("d", 3, "scalar")

    def first(x, o):
        o[lax.axis_index("c")] = jnp.float32(lax.axis_size("d"))

    def second(x, o):
        o[2 + lax.axis_index("d")] = jnp.float32(lax.axis_size("c"))

    f = mpmd_map([(TWO, first), (other, second)], F8, input_output_aliases={0: 0}, interpret=True)
    np.testing.assert_array_equal(f(X), [3, 3, 2, 2, 2, 5, 6, 7])
    with pytest.raises(NameError, match=r"axis_index\('c'\).*runs on the mesh CoreMesh\(d=3"):
        mpmd_map([(TWO, first), (other, first)], F8, interpret=True)(X)


@pytest.mark.parametrize(
    "collective",
    [
        lambda x: lax.psum(x, "c"),
        lambda x: lax.pmax(x, "c"),
        lambda x: lax.all_gather(x, "c"),
        lambda x: lax.ppermute(x, "c", [(0, 1)]),
    ],
    ids=["psum", "pmax", "all_gather", "ppermute"],
)
def test_k69_collectives_over_cores_are_refused(collective):
    def kernel(x, o):
        o[...] = collective(x[...])

    with pytest.raises(NotImplementedError, match=r"over 'c'.*mesh of cores.*semaphores"):
        on_two(kernel)(X)


def test_k69_the_name_and_the_tracing_context_of_a_mesh():
    import contextlib

    inside = []

    class Mesh(CoreMesh):
        @contextlib.contextmanager
        def tracing_context(self):
            inside.append("begin")
            yield
            inside.append("end")

    def kernel(x, o):
        inside.append("kernel")

    (eqn,) = equations(mpmd_map([(Mesh("c", 1), kernel)], F8, interpret=True, name="mine"), X)
    assert inside == ["begin", "kernel", "end"]
    assert eqn.params["name"] == "mine"
    assert eqn.params["jaxprs"][0].jaxpr.debug_info.name == "mine"


def test_k70_the_grid_of_a_pair_is_its_mesh():
    mesh = CoreMesh(("a", "b"), (2, 3))
    (eqn,) = equations(
        mpmd_map(
            [(mesh, lambda x, o, s, t: None)],
            F8,
            scratch_types=[LOCAL((2,), "int32"), SHARED((), "int32")],
            interpret=True,
        ),
        X,
    )
    (pair,) = pairs_of(eqn.params, 1)
    assert pair.mesh is mesh
    assert pair.grid_mapping.grid == (2, 3)
    assert pair.grid_mapping.grid_names == ("a", "b")
    assert [m.origin for m in pair.grid_mapping.block_mappings] == ["args[0]", "outputs"]
    assert all(m.has_trivial_window() for m in pair.grid_mapping.block_mappings)
    assert pair.cores == ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2))
    assert pair.owners == ("call", "call", "core", "call")


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


# -- several pairs --------------------------------------------------------------------------------------------


def test_k88_pairs_run_one_after_the_other_over_shared_buffers():
    other = CoreMesh(("d", "e"), (2, 2), "scalar")

    def first(x, o, s):
        i = lax.axis_index("c")
        s[i] = x[i] * 10
        x[i] = x[i] + 100

    def second(x, o, s):
        i = lax.axis_index(("d", "e"))
        o[i] = s[0] + s[1] + x[i]

    f = mpmd_map(
        [(TWO, first), (other, second)],
        S((4,), "float32"),
        scratch_types=[SHARED((2,), "float32")],
        interpret=True,
    )
    np.testing.assert_array_equal(f(X + 1), [30 + 101, 30 + 102, 30 + 3, 30 + 4])


def test_k88_memory_of_a_core_starts_anew_on_each():
    def kernel(o, s):
        o[lax.axis_index("c")] = s[0]
        s[0] = 5

    f = mpmd_map([(CoreMesh("c", 3), kernel)], S((3,), "int32"), scratch_types=[LOCAL((1,), "int32")], interpret=True)  # fmt: skip
    np.testing.assert_array_equal(f(), [np.iinfo("int32").min] * 3)
    f = mpmd_map([(CoreMesh("c", 3), kernel)], S((3,), "int32"), scratch_types=[SHARED((1,), "int32")], interpret=True)  # fmt: skip
    np.testing.assert_array_equal(f(), [np.iinfo("int32").min, 5, 5])


def test_k104c_two_cores_each_writing_half_equal_one():
    def half(x, o):
        i = lax.axis_index("c")
        for k in range(4):
            o[i * 4 + k] = jnp.sin(x[i * 4 + k])

    def whole(x, o):
        o[...] = jnp.sin(x[...])

    one = mpmd_map([(CoreMesh("c", 1), whole)], F8, interpret=True)(X)
    np.testing.assert_array_equal(on_two(half)(X), one)


def test_k105_there_are_no_composite_element_types():
    """Keys are the only extended types; one lowers as itself, so the hook has nothing to do."""
    keys = xlab.random.split(xlab.random.key(0), 2)

    def kernel(k, o):
        o[...] = k[...]

    got = on_two(kernel, S((2,), keys.dtype))(keys)
    np.testing.assert_array_equal(xlab.random.key_data(got), xlab.random.key_data(keys))


def test_equations_are_replaced_by_position():
    """A jaxpr given to the primitive by hand works like a traced one."""
    (eqn,) = equations(on_two(add_one), X)
    assert isinstance(eqn, JaxprEqn)
    (out,) = mpmd_map_p.bind(X, **eqn.params)
    np.testing.assert_array_equal(out, X + 1)
