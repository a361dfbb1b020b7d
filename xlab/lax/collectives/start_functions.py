"""`psum_start`, `all_gather_start`, ...: collectives that are started here and waited for later, by `done()` on the `Todo` they return.

What stands between the start and the wait can be computed while devices send. On GPU and TPU the compiler overlaps the two; on CPU a
collective that was started runs where it stands, and the results are the same.

Where nothing has to be sent, the `Todo` is complete at once: over the axis of a `vmap`, of constants, over no axes, in groups of one, and
of `all_gather_start(to="invarying")`, which has no start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlab import tree as _tree
from xlab.core.pending import Todo
from xlab.core.trace import find_axis
from xlab.core.typing import AxisName
from xlab.lax.collectives.all_gather import all_gather
from xlab.lax.collectives.all_to_all import all_to_all, stage
from xlab.lax.collectives.common import (
    axis_names,
    canonical_groups,
    group_size,
    mesh_names,
    without_single,
)
from xlab.lax.collectives.ppermute import pbroadcast, ppermute
from xlab.lax.collectives.psum import psum
from xlab.lax.collectives.psum_scatter import psum_scatter
from xlab.lax.collectives.starting import all_to_all_start_p, started, wait
from xlab.lax.shape import squeeze

__all__ = ["all_gather_start", "all_to_all_start", "pbroadcast_start", "ppermute_start", "psum_scatter_start", "psum_start"]  # fmt: skip


def psum_start(
    x: Any, axis_name: AxisName, *, axis_index_groups: Sequence[Sequence[int]] | None = None
) -> Todo:
    """Starts a `psum`; `done()` of what it returns is the sum.

    Args:
        x: array or pytree, as for `psum`.
        axis_name: a bound name or a tuple of them. Array axes among them, and axes of a `vmap`, are summed over at once.
        axis_index_groups: groups of ranks that are summed apart; not under checked `shard_map`.

    Returns:
        The pending sum.

    Raises:
        NameError: if a name is not bound.
        ValueError, NotImplementedError: as `psum`.

    Example:
        >>> import xlab
        >>> def f(x):
        ...     total = xlab.lax.psum_start(x, "i")
        ...     return x * x + total.done()
        >>> print(xlab.vmap(f, axis_name="i")(xlab.lax.iota("float32", 3)))
        [3. 4. 7.]
    """
    axes = without_single(axis_names(axis_name, "psum_start", ints=True))
    groups = canonical_groups(axis_index_groups, axes, "psum_start")
    over = mesh_names(axes)
    sent = tuple(
        a
        for a in axes
        if type(a) is not int and find_axis(a).kind != "vmap" and (not over or a in over)
    )
    if groups is None and sent and sent != axes:
        x, axes = psum(x, tuple(a for a in axes if a not in sent)), sent
    if sent != axes or not axes:
        return _complete("psum_start", psum(x, axes, axis_index_groups=groups))
    return _todo("psum_start", started(psum, x, axes, axis_index_groups=groups))


def all_gather_start(
    x: Any,
    axis_name: AxisName,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Todo:
    """Starts an `all_gather`; `done()` of what it returns has the values of all members of the group.

    Args:
        x, axis_name, axis_index_groups, axis, tiled: as for `all_gather`.
        to: as for `all_gather`; with 'invarying' it is carried out at once.

    Returns:
        The pending values.

    Raises:
        NameError: if a name is not bound.
        ValueError, NotImplementedError: as `all_gather`.

    Example:
        >>> import xlab
        >>> f = xlab.vmap(lambda x: xlab.lax.all_gather_start(x, "i").done(), axis_name="i")
        >>> print(f(xlab.lax.iota("float32", 2)))
        [[0. 1.]
         [0. 1.]]
    """
    options = {
        "axis_index_groups": axis_index_groups,
        "axis": axis,
        "tiled": tiled,
        "to": to,
    }
    return _start("all_gather_start", all_gather, x, axis_name, **options)


def psum_scatter_start(
    x: Any,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    tiled: bool = False,
) -> Todo:
    """Starts a `psum_scatter`; `done()` of what it returns is this member's block of the sum.

    Args:
        x, axis_name, scatter_dimension, axis_index_groups, tiled: as for `psum_scatter`.

    Returns:
        The pending block.

    Raises:
        NameError: if a name is not bound.
        ValueError, TypeError: as `psum_scatter`.

    Example:
        >>> import xlab
        >>> f = xlab.vmap(lambda x: xlab.lax.psum_scatter_start(x, "i").done(), axis_name="i")
        >>> print(f(xlab.lax.full((2, 2), 1.0)))
        [2. 2.]
    """
    options = {
        "scatter_dimension": scatter_dimension,
        "axis_index_groups": axis_index_groups,
        "tiled": tiled,
    }
    return _start("psum_scatter_start", psum_scatter, x, axis_name, **options)


def all_to_all_start(
    x: Any,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    tiled: bool = False,
) -> Todo:
    """Starts an `all_to_all`; `done()` of what it returns has the exchanged blocks.

    Args:
        x, axis_name, split_axis, concat_axis, axis_index_groups, tiled: as for `all_to_all`.

    Returns:
        The pending blocks.

    Raises:
        NameError: if a name is not bound.
        ValueError: as `all_to_all`.

    Example:
        >>> import xlab
        >>> f = xlab.vmap(lambda x: xlab.lax.all_to_all_start(x, "i", 0, 0).done(), axis_name="i")
        >>> print(f(xlab.lax.reshape(xlab.lax.iota("float32", 4), (2, 2))))
        [[0. 2.]
         [1. 3.]]
    """
    api = "all_to_all_start"
    names = axis_names(axis_name, api, lists=False)
    groups = canonical_groups(axis_index_groups, names, api, equal=True)
    if not _sent(names) or group_size(names, groups) == 1:
        done = all_to_all(
            x, axis_name, split_axis, concat_axis, axis_index_groups=groups, tiled=tiled
        )
        return _complete(api, done)
    staged = stage(api, axis_name, split_axis, concat_axis, groups, tiled)
    leaves, tree = _tree.flatten(x)
    pending, dropped = [], []
    for v in leaves:
        operand, params, drop = staged(v)
        pending.append(all_to_all_start_p.bind(operand, **params))
        dropped.append(drop)

    def finish(x):
        results = map(wait, _tree.leaves(x))
        return _tree.unflatten(
            tree, [v if d is None else squeeze(v, (d,)) for v, d in zip(results, dropped)]
        )

    return Todo(_tree.unflatten(tree, pending), finish, api)


def ppermute_start(x: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Todo:
    """Starts a `ppermute`; `done()` of what it returns is what this rank received.

    Args:
        x, axis_name, perm: as for `ppermute`.

    Returns:
        The pending value.

    Raises:
        NameError: if a name is not bound.
        ValueError: as `ppermute`.

    Example:
        >>> import xlab
        >>> f = xlab.vmap(lambda x: xlab.lax.ppermute_start(x, "i", [(0, 1), (1, 2)]).done(), axis_name="i")
        >>> print(f(xlab.lax.full((3,), 5.0)))
        [0. 5. 5.]
    """
    return _start("ppermute_start", ppermute, x, axis_name, perm=perm)


def pbroadcast_start(x: Any, axis_name: AxisName, source: int) -> Todo:
    """Starts a `pbroadcast`; `done()` of what it returns is the value of rank `source`.

    Only GPUs have an operation for it; elsewhere it is carried out at once.

    Args:
        x, axis_name, source: as for `pbroadcast`.

    Returns:
        The pending value.

    Raises:
        NameError: if a name is not bound.
        ValueError: as `pbroadcast`.

    Example:
        >>> import xlab
        >>> f = xlab.vmap(lambda x: xlab.lax.pbroadcast_start(x, "i", 2).done(), axis_name="i")
        >>> print(f(xlab.lax.iota("float32", 3)))
        [2. 2. 2.]
    """
    return _start("pbroadcast_start", pbroadcast, x, axis_name, source=source)


def _start(api: str, collective: Callable, x, axis_name, **options) -> Todo:
    names = axis_names(axis_name, api, lists=api == "ppermute_start")
    if not _sent(names):
        return _complete(api, collective(x, axis_name, **options))
    return _todo(api, started(collective, x, axis_name, **options))


def _sent(names) -> bool:
    """Whether values are sent along all of the axes: the examples of a `vmap` are on one device."""
    return bool(names) and all(find_axis(n).kind != "vmap" for n in names)


def _todo(api: str, pending) -> Todo:
    return Todo(pending, lambda x: _tree.map(wait, x), api)


def _complete(api: str, results) -> Todo:
    return Todo(results, lambda x: x, api)
