"""What collectives refuse, and the words they do it in."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
from xlab import lax
from xlab.lax import parallel
from xlab.sharding import AxisType, P, make_mesh

X = np.arange(8, dtype=np.float32)


def along(f, x=X, check_vma=True, out=P("a")):
    mesh = make_mesh((8,), ("a",), axis_types=(AxisType.Auto,))
    return xlab.shard_map(f, mesh=mesh, in_specs=P("a"), out_specs=out, check_vma=check_vma)(x)


def reduced(x):
    return lax.pcast(lax.psum(x, "a"), "a", to="reduced")


def unreduced(x):
    return lax.pcast(x, "a", to="unreduced")


def over_both(f):
    """Examples over two names, of which a collective names both."""
    rows = X.reshape(2, 4)
    return xlab.vmap(lambda r: xlab.vmap(lambda v: f(v, ("u", "w")), axis_name="w")(r), axis_name="u")(rows)  # fmt: skip


HALVES = [[0, 1, 2, 3], [4, 5, 6, 7]]
WIDE = np.ones(64, np.float32)

CASES = {
    "unbound": (NameError, "unbound axis name 'q'.*psum", lambda: lax.psum(X, "q")),
    "unbound_pmax": (NameError, "'q'.*pmax", lambda: lax.pmax(X, "q")),
    "unbound_ppermute": (NameError, "'q'", lambda: lax.ppermute(X, "q", [(0, 1)])),
    "unbound_index": (NameError, "'q'", lambda: lax.axis_index("q")),
    "unbound_inside": (NameError, "'q'.*'a'", lambda: along(lambda x: lax.psum(x, "q"))),
    "repeated": (ValueError, "repeated axis", lambda: along(lambda x: lax.psum(x, ("a", "a")))),
    "list": (TypeError, "list", lambda: along(lambda x: lax.all_gather(x, ["a"]))),
    "groups_cover": (ValueError, "cover all indices exactly once",
                     lambda: along(lambda x: lax.psum(x, "a", axis_index_groups=[[0, 1], [2, 3]]), check_vma=False)),
    "groups_uneven": (ValueError, "equally sized", lambda: along(
        lambda x: lax.all_gather(x, "a", axis_index_groups=[[0], [1, 2, 3, 4, 5, 6, 7]]), check_vma=False)),
    "groups_checked": (NotImplementedError, "check_vma", lambda: along(
        lambda x: lax.psum(x, "a", axis_index_groups=[[0, 1, 2, 3], [4, 5, 6, 7]]))),
    "perm_twice": (ValueError, "unique", lambda: along(lambda x: lax.ppermute(x, "a", [(0, 1), (0, 2)]))),
    "perm_range": (ValueError, "less than 8", lambda: along(lambda x: lax.ppermute(x, "a", [(0, 8)]))),
    "shuffle": (ValueError, "permutation", lambda: along(lambda x: lax.pshuffle(x, "a", [0, 0]))),
    "scatter": (ValueError, "size 3 must be divisible by shard_count 8",
                lambda: along(lambda x: lax.psum_scatter(x, "a", tiled=True), np.ones(24, np.float32))),
    "scatter_untiled": (ValueError, "3 must match shard count 8",
                        lambda: along(lambda x: lax.psum_scatter(x, "a"), np.ones(24, np.float32))),
    "exchange": (ValueError, "8 and 3", lambda: along(lambda x: lax.all_to_all(x, "a", 0, 0), np.ones(24, np.float32))),
    "exchange_tiled": (ValueError, "not divisible by 8",
                       lambda: along(lambda x: lax.all_to_all(x, "a", 0, 0, tiled=True), np.ones(24, np.float32))),
    "gather_axis": (ValueError, "axis|dimension", lambda: along(lambda x: lax.all_gather(x, "a", axis=5))),
    "gather_to": (ValueError, "invarying", lambda: along(lambda x: lax.all_gather(x, "a", to="nowhere"))),
    "source": (ValueError, "less than 8", lambda: along(lambda x: lax.pbroadcast(x, "a", 8))),
    "complex_max": (TypeError, "order", lambda: along(lambda x: lax.pmax(x * 1j, "a"))),
    "argmax_tuple": (TypeError, "pargmax", lambda: along(lambda x: lax.pargmax(x, ("a",)))),
    "pcast_same": (ValueError, "Unsupported pcast", lambda: along(lambda x: lax.pcast(x, "a", to="varying"))),
    "pcast_to": (ValueError, "Allowed", lambda: along(lambda x: lax.pcast(x, "a", to="invarying"))),
    "pcast_set": (TypeError, "set", lambda: along(lambda x: lax.pcast(x, {"a"}, to="varying"))),
    "pcast_outside": (ValueError, "under shard_map", lambda: lax.pcast(X, "a", to="varying")),
    "unbound_size": (NameError, "'q' in axis_size", lambda: along(lambda x: x * lax.axis_size("q"))),
    "groups_of_array_axes": (ValueError, r"psum: axis_index_groups only goes with named axes, got axes \('a', 0\)",
                             lambda: along(lambda x: lax.psum(x, ("a", 0), axis_index_groups=HALVES), check_vma=False)),
    "groups_of_sums": (NotImplementedError, "psum with axis_index_groups", lambda: along(lambda x: lax.psum(unreduced(x), "a", axis_index_groups=HALVES))),
    "groups_of_one_state": (NotImplementedError, r"all_gather\(to='invarying'\) with axis_index_groups",
                            lambda: along(lambda x: lax.all_gather(x, "a", to="invarying", axis_index_groups=HALVES))),
    "invariant_array_axis": (ValueError, r"psum_invariant works on named axes only, got \(0,\)", lambda: along(lambda x: parallel.psum_invariant_p.bind(x, axes=(0,)))),
    "invariant_same": (ValueError, "not varying over", lambda: along(lambda x: parallel.psum_invariant_p.bind(lax.psum(x, "a"), axes=("a",)))),
    "unreduced_of_varying": (ValueError, r"unreduced_psum over \('a',\).*not unreduced", lambda: along(lambda x: parallel.unreduced_psum(x, "a"))),
    "unreduced_of_same": (ValueError, "unreduced_psum.*not unreduced", lambda: along(lambda x: parallel.unreduced_psum(lax.psum(x, "a"), "a"))),
    "unreduced_of_reduced": (ValueError, "unreduced_psum.*not unreduced", lambda: along(lambda x: parallel.unreduced_psum(reduced(x), "a"))),
    "unreduced_array_axis": (ValueError, "unreduced_psum works on named axes only", lambda: along(lambda x: parallel.unreduced_psum_p.bind(unreduced(x), axes=(0,)))),
    "scatter_of_varying": (ValueError, "unreduced_psum_scatter.*not unreduced", lambda: along(lambda x: parallel.unreduced_psum_scatter(x, "a", tiled=True), WIDE)),
    "gather_of_same": (ValueError, "all_gather_reduced.*not varying", lambda: along(lambda x: lax.all_gather(lax.psum(x, "a"), "a", to="reduced"))),
    "pvary_twice": (ValueError, r"pvary over \('a',\).*varies over \('a',\) already", lambda: along(lambda x: parallel.pvary(x, "a"))),
    "preduced_of_varying": (ValueError, "becomes reduced only over axes over which all its copies are equal", lambda: along(lambda x: parallel.preduced(x, "a"))),
    "preduced_twice": (ValueError, "becomes reduced only.*R:a", lambda: along(lambda x: parallel.preduced(reduced(x), "a"))),
    "summands_of_same": (ValueError, "vary_unreduced_cast needs a value that is varying", lambda: along(lambda x: parallel.vary_unreduced_cast(lax.psum(x, "a"), "a"))),
    "varying_of_varying": (ValueError, "reduced_vary_cast needs a value that is reduced", lambda: along(lambda x: parallel.reduced_vary_cast(x, "a"))),
    "argmin_list": (TypeError, r"pargmin takes one axis name, got \['a'\]", lambda: along(lambda x: lax.pargmin(x, ["a"]))),
    "scatter_bool": (TypeError, "does not accept bool", lambda: along(lambda x: lax.psum_scatter(x > 0, "a", tiled=True), WIDE)),
    "perm_negative": (ValueError, r"ppermute ranks must be at least 0 and less than 8.*\(\(0, -1\),\)", lambda: along(lambda x: lax.ppermute(x, "a", [(0, -1)]))),
    "source_negative": (ValueError, "pbroadcast source must be at least 0 and less than 8.*got -1", lambda: along(lambda x: lax.pbroadcast(x, "a", -1))),
    "broadcast_of_same": (ValueError, r"pbroadcast must be applied to a device-varying type, got float32\[1\],", lambda: along(lambda x: lax.pbroadcast(lax.psum(x, "a"), "a", 0))),
    "permute_over_two": (NotImplementedError, r"ppermute over several axes \('u', 'w'\)", lambda: over_both(lambda v, a: lax.ppermute(v, a, [(0, 1)]))),
    "broadcast_over_two": (NotImplementedError, r"pbroadcast over several axes \('u', 'w'\)", lambda: over_both(lambda v, a: lax.pbroadcast(v, a, 0))),
    "exchange_axis": (ValueError, "axis 3 is out of bounds", lambda: along(lambda x: lax.all_to_all(x, "a", 0, 3), WIDE)),
    "mesh": (ValueError, "8 must be >= .*64.*XLAB_NUM_CPU_DEVICES=64", lambda: make_mesh((64,), ("a",))),
    "specs_of_sums": (ValueError, r"unreduced/reduced axes.*Explicit axes only \(axes \['a'\]", lambda: along(unreduced, out=P(None, unreduced={"a"}))),
    "result_varies": (ValueError, r"replication.*'a'.*float32\[1\]\{V:a\}", lambda: along(lambda x: x, out=P())),
    "loop_carry": (TypeError, r"float32\[1\] and comes out as float32\[1\]\{V:a\}.*pcast",
                   lambda: along(lambda x: lax.fori_loop(0, 2, lambda _, c: c + x, np.zeros(1, np.float32)))),
    "loop_carry_of_body": (TypeError, r"comes out as float32\[1\]\. They vary over different mesh axes: cast what <lambda> returns as component 0 with "
                           r"lax\.pcast\(x, 'a', to='varying'\)\.$",
                           lambda: along(lambda x: lax.scan(lambda c, _: (lax.pmean(c, "a"), None), x, None, length=2)[0])),
    "loop_carry_of_both": (TypeError, r"cast the initial value of component 0 with lax\.pcast\(x, 'a', to='varying'\), and cast what <lambda> returns as component 1 with",
                           lambda: along(lambda x: lax.while_loop(lambda c: True, lambda c: (x, lax.psum(c[1], "a")), (np.zeros(1, np.float32), x))[0])),
    "loop_carry_of_dtype_too": (TypeError, r"cast what .* component 0 with lax\.pcast.* Convert with \.astype",
                                lambda: along(lambda x: lax.scan(lambda c, _: (lax.psum(c, "a").astype("int32"), None), x, None, length=2)[0])),
    "loop_carry_of_parts": (TypeError, r"\{U:a\} and comes out as float32\[1\]\{V:a\}\. They are in different states over mesh axes: lax\.psum",
                            lambda: along(lambda x: lax.scan(lambda c, _: (x, None), unreduced(x), None, length=2)[0])),
    "branch_that_does_not_vary": (TypeError, r"cast the result of type float32\[1\] with lax\.pcast\(x, 'a', to='varying'\)\.$",
                                  lambda: along(lambda x: lax.cond(True, lambda: x, lambda: lax.psum(x, "a")))),
    "branches": (TypeError, r"float32\[1\] where .*float32\[1\]\{V:a\}.*pcast",
                 lambda: along(lambda x: lax.cond(True, lambda: x, lambda: np.zeros(1, np.float32)))),
    "grad_pmax": (NotImplementedError, "pmax", lambda: xlab.grad(lambda x: along(lambda v: lax.pmax(v, "a"), x, out=P()).sum())(X)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_error(name):
    kind, words, act = CASES[name]
    with pytest.raises(kind, match=words):
        act()


def test_values_in_two_states_are_refused():
    """C29: axes over which a value is in different states take a call each."""
    mesh = make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
    for name, f in {
        "psum": lambda x: lax.psum(x, ("a", "b")),
        "psum_scatter": lambda x: lax.psum_scatter(x, ("a", "b"), tiled=True),
        "pcast": lambda x: lax.pcast(x, ("a", "b"), to="varying"),
    }.items():
        with pytest.raises(
            ValueError,
            match=rf"{name} got .*V:b.*over the axes \('a', 'b'\).*invarying and varying",
        ):
            xlab.shard_map(f, mesh=mesh, in_specs=P("b"), out_specs=P())(WIDE)
    # an array axis has no state: with types that vary, too, it is summed beside the named one
    both = xlab.shard_map(
        lambda x: lax.psum(x, ("a", 0)), mesh=mesh, in_specs=P("a"), out_specs=P()
    )
    assert float(both(WIDE)) == 64


def test_array_axes_alone_need_no_map():
    """C10."""
    rows = X.reshape(2, 4)
    assert np.asarray(lax.psum(rows, 0)).tolist() == [4, 6, 8, 10]
    assert float(lax.pmax(rows, (0, 1))) == 7 and np.asarray(lax.pmin(rows, 1)).tolist() == [0, 4]
    assert np.asarray(lax.pmean(rows, -1)).tolist() == [1.5, 5.5]


def test_a_name_is_unbound_again_after_an_error():
    with pytest.raises(ZeroDivisionError):
        along(lambda x: 1 // 0)
    with pytest.raises(NameError):
        lax.axis_index("a")


def test_inner_binding_shadows_the_outer():
    inner = xlab.vmap(lambda x: lax.psum(x, "i"), axis_name="i")
    out = xlab.vmap(lambda x: inner(x) + lax.axis_size("i"), axis_name="i")(
        np.ones((2, 3), np.float32)
    )
    assert np.asarray(out).tolist() == [[5.0] * 3] * 2


@pytest.mark.parametrize("prim", ["all_gather_p", "all_gather_invariant_p", "all_to_all_p"])
def test_primitives_bound_where_nothing_is_mapped(prim):
    """C10."""
    params = {"axis_name": ("q",), "tiled": True}
    if prim == "all_to_all_p":
        params |= {"split_axis": 0, "concat_axis": 0, "axis_index_groups": None}
    else:
        params |= {"all_gather_dimension": 0, "axis_size": 8}
        params |= {"axis_index_groups": None} if prim == "all_gather_p" else {}
    with pytest.raises(RuntimeError, match="'q'.*within a mapped context"):
        getattr(lax, prim).bind(np.ones(8, np.float32), **params)
