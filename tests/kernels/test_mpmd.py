"""`mpmd_map`: its arguments, memory spaces, what kernels close over, and what they see of their mesh."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xlab
from tests.kernels.mpmd_examples import (
    F8,
    LOCAL,
    SHARED,
    TWO,
    S,
    X,
    add_one,
    equations,
    first_is_seven,
    on_two,
    positional_scratch,
)
from xlab import lax
from xlab import numpy as jnp
from xlab.core.jaxpr import JaxprEqn
from xlab.kernels import (
    ANY,
    CoreMemorySpace,
    CoreMesh,
    MemorySpace,
    mpmd_map,
    mpmd_map_p,
    num_programs,
    program_id,
)
from xlab.kernels.pairs import pairs_of

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


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
@settings(max_examples=15)
def test_k69_every_core_has_its_place(sizes, data):
    names = tuple("abc"[: len(sizes)])
    order = data.draw(st.permutations(names))
    mesh = CoreMesh(names, tuple(sizes))

    def kernel(o):
        here = tuple(lax.axis_index(n) for n in names)
        o[here] = lax.axis_index(tuple(order)) + 100 * program_id(len(sizes) - 1)

    got = mpmd_map([(mesh, kernel)], S(tuple(sizes), "int32"), interpret=True)()
    shape = [sizes[names.index(n)] for n in order]
    places = np.indices(sizes)
    want = np.ravel_multi_index([places[names.index(n)] for n in order], shape) + 100 * places[-1]
    np.testing.assert_array_equal(got, want)


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
