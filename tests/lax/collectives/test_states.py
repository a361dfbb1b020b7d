"""How values are over mesh axes, and what each collective makes of it: every transition, every refusal, effects, and the printed form."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.core.avals import ManualAxisType
from xlab.sharding import AxisType, P, make_mesh

MESH = make_mesh((8,), ("i",), axis_types=AxisType.Auto)
X = np.arange(64, dtype=np.float32)


def equations(f, x=X, mesh=MESH, **options):
    where = P(mesh.axis_names)
    g = xlab.shard_map(lambda v: (f(v), v)[1], mesh=mesh, in_specs=where, out_specs=where, **options)  # fmt: skip
    return xlab.make_jaxpr(g)(x).eqns[0].params["jaxpr"].eqns


def made(x, state):
    if state in "IR":
        x = lax.psum(x, "i")
    if state in "RU":
        return lax.pcast(x, "i", to="reduced" if state == "R" else "unreduced")
    return x


def state_of(x):
    mat = xlab.typeof(x).mat
    found = [s for s, axes in zip("VUR", (mat.varying, mat.unreduced, mat.reduced)) if "i" in axes]
    return found[0] if found else "I"


# By call: for each state what comes out and by which primitive; what is not there is refused.
CALLS = {
    "to varying": (lambda x: lax.pcast(x, "i", to="varying"), {"I": ("V", "pvary"), "R": ("V", "reduced_vary_cast")}),
    "to unreduced": (lambda x: lax.pcast(x, "i", to="unreduced"), {"V": ("U", "vary_unreduced_cast")}),
    "to reduced": (lambda x: lax.pcast(x, "i", to="reduced"), {"I": ("R", "preduced")}),
    "psum": (lambda x: lax.psum(x, "i"), {"V": ("I", "psum_invariant"), "I": ("I", "psum_invariant"), "U": ("I", "unreduced_psum")}),
    "pmax": (lambda x: lax.pmax(x, "i"), {"V": ("I", "pmax"), "I": ("I", "pmax")}),
    "pmin": (lambda x: lax.pmin(x, "i"), {"V": ("I", "pmin"), "I": ("I", "pmin")}),
    "all_gather": (lambda x: lax.all_gather(x, "i"), {"V": ("V", "all_gather"), "I": ("V", "all_gather")}),
    "all_gather invarying": (lambda x: lax.all_gather(x, "i", to="invarying"), dict.fromkeys("VI", ("I", "all_gather_invariant"))),
    "all_gather reduced": (lambda x: lax.all_gather(x, "i", to="reduced"), {"V": ("R", "all_gather_reduced")}),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i", tiled=True),
                     {"V": ("V", "reduce_scatter"), "I": ("V", "reduce_scatter"), "U": ("V", "unreduced_reduce_scatter")}),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True), dict.fromkeys("VI", ("V", "all_to_all"))),
    "ppermute": (lambda x: lax.ppermute(x, "i", [(0, 1)]), dict.fromkeys("VI", ("V", "ppermute"))),
    "pbroadcast": (lambda x: lax.pbroadcast(x, "i", 1), {"V": ("V", "pbroadcast")}),
    "psend": (lambda x: lax.psend(x, "i", [(0, 1)]), dict.fromkeys("VI", (None, "psend"))),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("state", "VIUR")
def test_transitions(name, state):
    """C14, C22, C27: where a value the same everywhere becomes one that varies, a `pvary` says so."""
    f, outcomes = CALLS[name]
    seen = []

    def body(x):
        out = f(made(x, state))
        seen.append(None if name == "psend" else state_of(out))

    if state not in outcomes:
        with pytest.raises(ValueError, match="'i'|Unsupported pcast"):
            equations(body)
        return
    after, primitive = outcomes[state]
    eqns = equations(body)
    assert seen == [after] and eqns[-1].primitive.name == primitive
    cast = state == "I" and not name.startswith("to ")
    assert ("pvary" in [e.primitive.name for e in eqns[:-1]]) == cast


GUARDED = {
    "psum": "R", "pmax": "UR", "pmin": "UR", "ppermute": "UR", "all_to_all": "UR", "all_gather": "UR", "all_gather invarying": "UR",
    "psum_scatter": "R", "pbroadcast": "UR", "psend": "UR",
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDED)
def test_sums_that_are_not_carried_out_are_refused_by_name(name):
    """C14: with the type, the axes and what to do."""
    for state in GUARDED[name]:
        advice = "carry out the sum first" if state == "U" else "to='varying'"
        with pytest.raises(
            ValueError,
            match=rf"^{name.split()[0]} cannot accept args which are unreduced/reduced.*\{{{state}:i\}}.*'i'.*{advice}",
        ):
            equations(lambda x, state=state: CALLS[name][0](made(x, state)))


def test_effects():
    """C12: one per axis of what all devices have to come to, none of what only some do."""

    def body(x):
        for f, outcomes in CALLS.values():
            for state in outcomes:
                f(made(x, state))
        lax.axis_index("i")

    found = {e.primitive.name: sorted(map(str, e.effects)) for e in equations(body)}
    none = {"pvary", "preduced", "vary_unreduced_cast", "reduced_vary_cast", "ppermute", "pbroadcast"}  # fmt: skip
    assert {n for n, effects in found.items() if not effects} == none
    assert found.pop("psend") == ["NamedAxisEffect('i')", "one-sided communication"]
    assert {tuple(v) for n, v in found.items() if n not in none} == {("NamedAxisEffect('i')",)}
    closed = xlab.make_jaxpr(
        xlab.shard_map(lambda x: lax.psum(x, "i"), mesh=MESH, in_specs=P("i"), out_specs=P())
    )(X)
    assert not closed.effects, "whoever binds the axis has them"


def test_printed_form():
    """C15."""
    mesh, seen = make_mesh((4, 2), ("i", "j"), axis_types=(AxisType.Auto,) * 2), []

    def body(x):
        same = lax.psum(x, "i")
        for v in (x, same, lax.psum(same, "j"), lax.pcast(x, "i", to="unreduced"), lax.pcast(same, "i", to="reduced")):  # fmt: skip
            seen.append(str(xlab.typeof(v)))

    equations(body, mesh=mesh)
    assert seen == [f"float32[8]{s}" for s in ("{V:(i,j)}", "{V:j}", "", "{V:j, U:i}", "{V:j, R:i}")]  # fmt: skip
    mat = ManualAxisType({"i"})
    assert str(mat) == "{V:i}" and str(mat.update(varying=(), reduced={"i"})) == "{R:i}"
    with pytest.raises(ValueError, match="'i'.* in more than one of"):
        mat.update(unreduced={"i"})


@pytest.mark.parametrize("name", ["psum", "pmean", "pmax", "pmin"])
@pytest.mark.parametrize("check", [True, False])
def test_an_axis_of_vmap_among_those_of_the_mesh(name, check):
    """C25: types are about the mesh alone, and a reduction over both is one after the other."""
    f = getattr(lax, name)

    def body(x):
        def one(v):
            return f(v, ("i", "batch")), f(v, "batch")

        both, inner = xlab.vmap(one, axis_name="batch")(jnp.stack([x, 3 * x]))
        if check:
            assert (state_of(both), state_of(inner)) == ("I", "V")
        return both[0], inner[1]

    g = xlab.shard_map(body, mesh=MESH, in_specs=P("i"), out_specs=(P(), P("i")), check_vma=check)
    rows = X.reshape(8, 8)
    both, inner = g(X)
    model = getattr(np, {"psum": "sum", "pmean": "mean"}.get(name, name[1:]))
    np.testing.assert_allclose(both, model(np.concatenate([rows, 3 * rows]), 0))
    np.testing.assert_allclose(inner, model(np.stack([rows, 3 * rows]), 0).ravel())


def test_axes_of_one_device_may_be_left_out():
    """C26: of sums, before anything else; others stay, and unknown ones are unknown."""
    mesh = make_mesh((1, 8), ("o", "i"), axis_types=(AxisType.Auto,) * 2)

    def found(f):
        return [(e.primitive.name, e.params.get("axes", e.params.get("axis_name"))) for e in equations(f, mesh=mesh)]  # fmt: skip

    def scatter(axes):
        return lambda x: lax.psum_scatter(x, axes, tiled=True)

    both = ("o", "i")
    assert found(lambda x: lax.psum(x, both)) == [("psum_invariant", both)]
    xlab.config.set_local("remove_size_one_mesh_axis_from_type", True)
    try:
        assert found(lambda x: lax.psum(x, both)) == [("psum_invariant", ("i",))]
        assert found(scatter(both)) == [("reduce_scatter", ("i",))]
        assert found(lambda x: lax.psum(x, "o")) == found(scatter("o")) == []
        with pytest.raises(NameError, match="'q'"):
            found(lambda x: lax.psum(x, "q"))
    finally:
        xlab.config.unset_local("remove_size_one_mesh_axis_from_type")


@pytest.mark.parametrize("name", ["to unreduced", "to reduced", "to varying", "psum"])
def test_casts_of_batches_keep_the_batch_where_it_is(name):
    """C31, C32, C33, C34, C45: a cast of each example is the cast of all."""
    f, outcomes = CALLS[name]

    def body(x):
        batch = jnp.stack([x, 2 * x], 1)
        for state in outcomes:
            one = lambda v, state=state: f(made(v, state))
            out = xlab.vmap(one, in_axes=1, out_axes=1)(batch)
            assert xlab.typeof(out).shape == (8, 2)
            assert state_of(out) == state_of(one(x)) == outcomes[state][0]

    casts = [e for e in equations(body) if e.primitive.name in {p for _, p in outcomes.values()}]
    assert len(casts) >= 2 * len(outcomes)
