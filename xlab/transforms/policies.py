"""Policies of `checkpoint`: which values are saved, by name or by operation."""

from __future__ import annotations

from typing import NamedTuple

from xlab import tree as _tree
from xlab.core.primitive import Primitive
from xlab.interpreters import ad, batching, costs, mlir


class RecomputeType:
    """A policy's answer for a value to recompute: `Recompute`, the same as False."""

    def __repr__(self):
        return "Recompute"


class SaveableType:
    """A policy's answer for a value to save: `Saveable`, the same as True."""

    def __repr__(self):
        return "Saveable"


Recompute, Saveable = RecomputeType(), SaveableType()


class Offloadable(NamedTuple):
    """A policy's answer for a value to offload: the memory it is in, and the memory it is saved in."""

    src: str
    dst: str


def is_saveable(answer) -> bool:
    """Whether a policy's answer means that the value is kept where it is."""
    return answer is Saveable or (
        not isinstance(answer, (RecomputeType, Offloadable)) and bool(answer)
    )


def checkpoint_name(x, name: str):
    """Names a value so that a policy can keep it; works on pytrees."""
    return _tree.map(lambda v: name_p.bind(v, name=name), x)


name_p = Primitive("name")
name_p.def_abstract_eval(lambda x, *, name: x)
name_p.linear_in_unreduced = True
ad.deflinear2(name_p, lambda ct, x, *, name: [ct])
batching.defvectorized(name_p)
mlir.register_text_lowering(name_p, lambda ctx, x, *, name: x)


class checkpoint_policies:
    """Which values `checkpoint` keeps. Each is a `policy`, or makes one."""

    @staticmethod
    def everything_saveable(*_, **__):
        return True

    @staticmethod
    def nothing_saveable(*_, **__):
        return False

    @staticmethod
    def dots_saveable(prim, *_, **__):
        return prim.name in ("dot_general", "conv_general_dilated")

    checkpoint_dots = dots_saveable

    @staticmethod
    def dots_with_no_batch_dims_saveable(prim, *_, **params):
        if prim.name != "dot_general":
            return False
        _, (lhs_batch, rhs_batch) = params["dimension_numbers"]
        return not lhs_batch and not rhs_batch

    checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable

    @staticmethod
    def save_anything_except_these_names(*names):
        excluded = frozenset(names)
        return lambda prim, *_, **params: not (prim is name_p and params["name"] in excluded)

    @staticmethod
    def save_any_names_but_these(*names):
        excluded = frozenset(names)
        return lambda prim, *_, **params: prim is name_p and params["name"] not in excluded

    @staticmethod
    def save_only_these_names(*names):
        wanted = frozenset(names)
        return lambda prim, *_, **params: prim is name_p and params["name"] in wanted

    @staticmethod
    def save_from_both_policies(one, two):
        def policy(prim, *avals, **params):
            first, second = one(prim, *avals, **params), two(prim, *avals, **params)
            if isinstance(first, Offloadable) or isinstance(second, Offloadable):
                raise ValueError(
                    "save_from_both_policies does not go together with policies that offload"
                )
            return is_saveable(first) or is_saveable(second)

        return policy

    @staticmethod
    def offload_dot_with_no_batch_dims(offload_src, offload_dst):
        """Products without batch dimensions wait in another memory, such as `"pinned_host"`."""
        keep = checkpoint_policies.dots_with_no_batch_dims_saveable
        moved = Offloadable(src=offload_src, dst=offload_dst)
        return lambda prim, *avals, **params: moved if keep(prim, *avals, **params) else Recompute

    @staticmethod
    def save_and_offload_only_these_names(
        *, names_which_can_be_saved, names_which_can_be_offloaded, offload_src, offload_dst
    ):
        """Values with some names are kept, those with others wait in another memory."""
        saved, offloaded = (
            frozenset(names_which_can_be_saved),
            frozenset(names_which_can_be_offloaded),
        )
        if saved & offloaded:
            raise ValueError(
                f"the names {sorted(saved & offloaded)} are both to be saved and to be offloaded; choose one for each"
            )
        moved = Offloadable(src=offload_src, dst=offload_dst)

        def policy(prim, *_, **params):
            if prim is not name_p:
                return Recompute
            return (
                moved
                if params["name"] in offloaded
                else Saveable
                if params["name"] in saved
                else Recompute
            )

        return policy


costs.register(costs.free, name_p)
