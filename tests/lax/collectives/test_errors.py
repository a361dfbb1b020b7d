"""What collectives refuse, and the words they do it in."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
from xlab import lax
from xlab.sharding import AxisType, P, make_mesh

X = np.arange(8, dtype=np.float32)


def along(f, x=X, check_vma=True, out=P("a")):
    mesh = make_mesh((8,), ("a",), axis_types=(AxisType.Auto,))
    return xlab.shard_map(f, mesh=mesh, in_specs=P("a"), out_specs=out, check_vma=check_vma)(x)


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
    "grad_pmax": (NotImplementedError, "pmax", lambda: xlab.grad(lambda x: along(lambda v: lax.pmax(v, "a"), x, out=P()).sum())(X)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_error(name):
    kind, words, act = CASES[name]
    with pytest.raises(kind, match=words):
        act()


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
