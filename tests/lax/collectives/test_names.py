"""Names of axes: which values are names, what primitives do where one is not bound, and the meshes that types refer to."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.errors import ManualAxisTypeError
from xlab.lax import parallel
from xlab.sharding import AxisType, P, make_mesh

X = np.arange(8, dtype=np.float32)
BLOCKS = np.arange(64, dtype=np.float32)


def mesh_of(shape=(8,), names=("i",)):
    return make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names))


def inside(f, x=X, mesh=None, **options):
    """The equations of a body that does something with one device's value and returns it as it was."""
    mesh = mesh or mesh_of()
    where = P(mesh.axis_names)

    def body(v):
        f(v)
        return v

    g = xlab.shard_map(body, mesh=mesh, in_specs=where, out_specs=where, **options)
    return xlab.make_jaxpr(g)(x).eqns[0].params["jaxpr"].eqns


@pytest.mark.parametrize("map_", [xlab.vmap, xlab.pmap])
def test_an_int_is_no_name(map_):
    """C1: ints are axes of arrays."""
    with pytest.raises(TypeError, match="axis_name=0: an int names an axis of an array"):
        map_(lambda x: lax.psum(x, 0), axis_name=0)
    for name in ("v", 2.5, Fraction(1, 2)):
        named = map_(lambda x, a=name: lax.psum(x, a) + lax.axis_size(a), axis_name=name)
        assert np.asarray(named(X)).tolist() == [36.0] * 8


def test_a_tuple_may_be_a_name():
    """C1: inside of a tuple it is one of several."""
    named = xlab.vmap(lambda x: lax.psum(x, (("v", 2),)), axis_name=("v", 2))
    assert np.asarray(named(X)).tolist() == [28.0] * 8
    with pytest.raises(NameError, match="'v'"):
        xlab.vmap(lambda x: lax.psum(x, ("v", 2)), axis_name=("v", 2))(X)


CASTS = ("pvary", "preduced", "vary_unreduced_cast", "reduced_vary_cast")
EMPTY = {
    "psum": lax.psum,
    "psum_scatter": lax.psum_scatter,
    **{f"all_gather to {to}": (lambda v, a, to=to: lax.all_gather(v, a, to=to)) for to in ("varying", "reduced", "invarying")},
    **{f"pcast to {to}": (lambda v, a, to=to: lax.pcast(v, a, to=to)) for to in ("varying", "reduced", "unreduced")},
    **{n: getattr(parallel, n) for n in (*CASTS, "unreduced_psum", "unreduced_psum_scatter", "all_gather_reduced", "all_gather_invariant")},
}  # fmt: skip


@pytest.mark.parametrize("name", EMPTY)
def test_over_no_axes_the_operand_is_the_result(name):
    """C2."""

    def body(v):
        assert EMPTY[name](v, ()) is v

    assert inside(body) == []


def test_extrema_over_no_axes_are_an_identity():
    """C2."""
    assert [e.primitive.name for e in inside(lambda v: (lax.pmax(v, ()), lax.pmin(v, ())))] == [
        "pmax",
        "pmin",
    ]
    assert lax.pmax(X, ()).tolist() == X.tolist()


@pytest.mark.parametrize("name", ["pcast", *CASTS])
def test_casts_take_names_and_tuples(name):
    """C2, C31."""
    cast = (lambda v, a: lax.pcast(v, a, to="varying")) if name == "pcast" else getattr(parallel, name)  # fmt: skip
    for axes, error, words in (
        (["i"], TypeError, f"{name} takes one axis name or a tuple of them, got the list"),
        ({"i"}, TypeError, f"{name} takes one axis name or a tuple of them, got the set"),
        (("i", "i"), ValueError, f"{name} got a repeated axis"),
        (0, NotImplementedError, f"{name} works on mesh axes, not on array axes: got \\(0,\\)"),
        ("q", NameError, f"'q' in {name}"),
    ):
        with pytest.raises(error, match=words):
            inside(lambda v, axes=axes: cast(v, axes))
    with pytest.raises(ValueError, match=f"{name} should be called under shard_map"):
        cast(X, "i")


def test_who_keeps_the_form_of_the_name():
    """C2: the parameter of the primitive is what was given, for three of them."""

    def body(v):
        lax.all_to_all(v, "i", 0, 0, tiled=True)
        lax.pbroadcast(v, "i", 0)
        lax.axis_index("i")
        lax.pbroadcast(v, ("i",), 0)
        lax.ppermute(v, "i", [(0, 1)])

    found = [e.params["axis_name"] for e in inside(body, BLOCKS)]
    assert found == ["i", "i", "i", ("i",), ("i",)]


GATHERED = {"all_gather_dimension": 0, "axis_name": ("q",), "axis_size": 8, "tiled": True}
SCATTERED = {"axis_name": ("q",), "scatter_dimension": 0, "axis_size": 8, "tiled": True}
GROUPS = {"axis_index_groups": None}
# What each primitive does that is bound where nothing is mapped; inside of another map it is always a NameError.
BOUND = {
    "psum_p": (NameError, {"axes": ("q",), **GROUPS}),
    "pmax_p": (NameError, {"axes": ("q",), **GROUPS}),
    "pmin_p": (NameError, {"axes": ("q",), **GROUPS}),
    "psum_invariant_p": (RuntimeError, {"axes": ("q",)}),
    "unreduced_psum_p": (RuntimeError, {"axes": ("q",)}),
    "all_gather_p": (RuntimeError, GATHERED | GROUPS),
    "all_gather_invariant_p": (RuntimeError, GATHERED),
    "all_gather_reduced_p": (RuntimeError, GATHERED),
    "reduce_scatter_p": (NameError, SCATTERED | GROUPS),
    "unreduced_reduce_scatter_p": (RuntimeError, SCATTERED),
    "all_to_all_p": (RuntimeError, {"split_axis": 0, "concat_axis": 0, "axis_name": "q", "tiled": True, **GROUPS}),
    "ppermute_p": (NameError, {"axis_name": ("q",), "perm": ((0, 1),)}),
    "pbroadcast_p": (NameError, {"axis_name": "nobody", "source": 0}),
    "axis_index_p": (NameError, {"axis_name": "q"}),
    **{f"{n}_p": (ValueError, {"axes": ("q",)}) for n in CASTS},
}  # fmt: skip


@pytest.mark.parametrize("name", BOUND)
def test_primitives_over_axes_that_nobody_binds(name):
    """C3, C10: however it is bound, it is never taken for one that is bound."""
    prim = getattr(parallel, name)
    error, params = BOUND[name]
    operands = [] if name == "axis_index_p" else [BLOCKS]
    axis = params["axis_name"] if "axis_name" in params else params["axes"]
    axis = axis if isinstance(axis, str) else axis[0]
    with pytest.raises(error, match=repr(axis)):
        prim.bind(*operands, **params)
    with pytest.raises(NameError, match=f"unbound axis name {axis!r} in {name[:-2]} .*shard_map"):
        inside(lambda v: prim.bind(*[v][: len(operands)], **params), BLOCKS)


def test_axis_index_bound_with_a_tuple():
    """C85."""
    mesh = mesh_of((4, 2), ("i", "j"))

    def run(axes):
        return xlab.shard_map(
            lambda x: x * 0 + lax.axis_index_p.bind(axis_name=axes),
            mesh=mesh, in_specs=P(("i", "j")), out_specs=P(("i", "j")),
        )(X)  # fmt: skip

    assert run(("i",)).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    with pytest.raises(NotImplementedError, match="takes one axis name, got .*lax.axis_index"):
        run(("i", "j"))


@pytest.mark.parametrize("name", ["psum", "pmean", "pmax", "pmin"])
@pytest.mark.parametrize("how", ["array axis", "vmap", "jit of vmap"])
def test_operands_of_another_mesh_are_refused(name, how):
    """C13: the type of the operand refers to a mesh, and so do the types around it."""
    explicit = (AxisType.Explicit,) * 2
    own, other = (make_mesh(s, ("i", "j"), axis_types=explicit) for s in ((4, 2), (2, 4)))
    x = xlab.device_put(X.reshape(4, 2), xlab.sharding.NamedSharding(own, P("i", "j")))
    f = getattr(lax, name)

    def run(x):
        return f(x, 0) if how == "array axis" else xlab.vmap(lambda v: f(v, "v"), axis_name="v")(x)

    run = xlab.jit(run) if "jit" in how else run
    with (
        xlab.set_mesh(other),
        pytest.raises(ValueError, match=f"{name} got an operand of type float32.*'i': 4, 'j': 2.*'i': 2, 'j': 4"),
    ):  # fmt: skip
        run(x)
    with xlab.set_mesh(own):
        whole = np.asarray(run(x))
    assert whole.reshape(-1, 2)[0].tolist() == getattr(np, name[1:])(X.reshape(4, 2), 0).tolist()


@pytest.mark.parametrize("name", ["psum", "pmax", "pmin", "pmean"])
def test_types_over_explicit_axes_follow_the_plain_reduction(name):
    """C39."""
    f, mesh = getattr(lax, name), make_mesh((4, 2), ("i", "j"))
    seen = []

    def run(x):
        seen.append((xlab.typeof(f(x, 0)), xlab.typeof(x.sum(0))))
        mapped = xlab.vmap(lambda v: f(v, "v"), axis_name="v")(x)
        seen.append((xlab.typeof(f(x, ())), xlab.typeof(x)))
        return f(x, 0), mapped

    with xlab.set_mesh(mesh):
        x = xlab.reshard(X.reshape(4, 2), P("i", "j"))
        whole, mapped = xlab.jit(run)(x)
    for got, want in seen:
        assert str(got) == str(want)
    assert str(seen[0][0]) == "float32[2@j]"
    want = getattr(np, name[1:])(X.reshape(4, 2), 0)
    np.testing.assert_array_equal(whole, want)
    np.testing.assert_array_equal(mapped, np.broadcast_to(want, (4, 2)))


def test_casts_have_their_axes_in_the_order_of_the_mesh():
    """C30: one program, however the axes were written."""
    mesh = mesh_of((4, 2), ("i", "j"))

    def body(v):
        parallel.vary_unreduced_cast(v, ("j", "i"))
        lax.pcast(v, ("j", "i"), to="unreduced")
        same = lax.psum(v, ("i", "j"))
        parallel.pvary(same, ("j", "i"))
        lax.pcast(same, ("j", "i"), to="varying")
        lax.pcast(same, ("j", "i"), to="reduced")
        parallel.reduced_vary_cast(parallel.preduced(same, ("j", "i")), ("j", "i"))
        v + same  # cast without being asked for

    found = [
        (e.primitive.name, e.params["axes"]) for e in inside(body, mesh=mesh) if "axes" in e.params
    ]
    casts = [(n, axes) for n, axes in found if n != "psum_invariant"]
    assert len(casts) == 8 and {n for n, _ in casts} == set(CASTS)
    assert {axes for _, axes in casts} == {("i", "j")}


def test_messages_name_the_function_that_was_called():
    """C14."""
    reduced = lambda v: lax.pcast(lax.psum(v, "i"), "i", to="reduced")
    for name, f in {
        "pmean": lambda v: lax.pmean(reduced(v), "i"),
        "pmax": lambda v: lax.pmax(reduced(v), "i"),
        "vary_unreduced_cast": lambda v: parallel.vary_unreduced_cast(reduced(v), "i"),
        "pmin": lambda v: parallel.pmin_p.bind(reduced(v), axes=("i",), axis_index_groups=None),
    }.items():
        with pytest.raises(ValueError, match=f"^{name} cannot accept args which are unreduced/red"):
            inside(f)


def custom_vjp(bwd):
    f = xlab.custom_vjp(lambda w: w * 2)
    f.defvjp(lambda w: (w * 2, w), bwd)
    return f


def custom_jvp(tangent):
    f = xlab.custom_jvp(lambda w: w * 2)
    f.defjvp(lambda primals, tangents: (f(*primals), tangent(*tangents)))
    return f


def summed(ct):
    return lax.psum(ct, "i")


def cast(ct):
    return lax.pcast(ct, "i", to="varying")


def test_rules_for_derivatives_keep_what_varies():
    """C19: both types are said, and what to do; without checks there is nothing to keep."""
    backwards = custom_vjp(lambda _, ct: (summed(ct),))
    with pytest.raises(
        ManualAxisTypeError, match=r"gave float32\[1\] for .*float32\[1\]\{V:i\}.*pcast"
    ):
        inside(xlab.grad(lambda v: backwards(v).sum()))
    inside(xlab.grad(lambda v: backwards(v).sum()), check_vma=False)
    back = custom_vjp(lambda _, ct: (cast(ct),))
    with pytest.raises(ValueError, match=r"gave float32\[1\]\{V:i\} for .*float32\[1\],.*psum"):
        inside(lambda v: xlab.grad(lambda v: back(v).sum())(summed(v)))
    forwards = custom_jvp(summed)
    with pytest.raises(
        TypeError, match=r"primal of type float32\[1\]\{V:i\} and a tangent of type float32\[1\]: "
    ):
        inside(lambda v: xlab.jvp(forwards, (v,), (v,)))
    inside(forwards)
    right = custom_vjp(lambda _, ct: (cast(summed(ct)),))
    inside(xlab.grad(lambda v: right(v).sum()))


def test_the_mean_over_uneven_groups_is_that_of_ones_own_group():
    """C8: not of the first."""
    groups = [[0], [1, 2], [3, 4, 5, 6, 7]]
    sizes = np.float32([1, 2, 2, 5, 5, 5, 5, 5])
    sums = np.float32([0, 3, 3, 25, 25, 25, 25, 25])

    def mean(v):
        return lax.pmean(v, "i", axis_index_groups=groups)

    def mapped(f):
        return xlab.shard_map(f, mesh=mesh_of(), in_specs=P("i"), out_specs=P("i"), check_vma=False)

    for f in (mapped(mean), xlab.vmap(mean, axis_name="i"), xlab.pmap(mean, axis_name="i")):
        np.testing.assert_array_equal(f(X), sums / sizes)
        assert f(X.astype(np.int32)).dtype == np.float32
    tree = mapped(lambda v: sum(mean({"a": v, "b": [2 * v, None]})["b"][:1]))
    np.testing.assert_array_equal(tree(X), 2 * sums / sizes)
    # each value is divided by the size of its group once for every member
    weights = np.arange(8, dtype=np.float32)
    got = xlab.grad(lambda x: (mapped(mean)(x) * weights).sum())(X)
    want = [0, 1.5, 1.5, *[5.0] * 5]
    np.testing.assert_allclose(got, want, rtol=1e-6)
    rank_order = xlab.vmap(lambda v: lax.pmean(v, "i", axis_index_groups=[[7, 0, 1], [2, 3, 4, 5, 6]]), axis_name="i")  # fmt: skip
    np.testing.assert_allclose(rank_order(X)[:3], np.float32([8 / 3, 8 / 3, 4]), rtol=1e-6)
    assert jnp.ravel(mapped(lambda v: v * 0 + lax.psum(1, "i"))(X)).tolist() == [8.0] * 8
