"""What primitives on references share: how a view is given to them, what they do to values, and how they print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlab import tree as _tree
from xlab.core import printing
from xlab.core.avals import aval_of
from xlab.core.primitive import Primitive
from xlab.core.refs import AbstractRef, Ref, is_ref
from xlab.interpreters import mlir
from xlab.interpreters.discharge import discharge_rules
from xlab.lax.ref_views import SelectedRef, TransformedRef


def ref_primitive(name: str, rule: Callable, **options: Any) -> Primitive:
    """A primitive on references, which discharge replaces by `rule`.

    Args:
        name: its name.
        rule: `rule(*values, **params) -> ({operand number: new value}, results)`: what it does, where references are the values
            they have. It runs eagerly, and when a program is discharged.
        options: of `Primitive`.
    """
    prim = Primitive(name, auto_pvary=False, **options)
    prim.takes_refs = True
    mlir.lowerings.excuse(prim, "references are discharged before lowering")
    discharge_rules[prim] = lambda eqn, ref_mask, operands: rule(*operands, **eqn.params)

    @prim.def_impl
    def _impl(*args, **params):
        prim.abstract(tuple(map(aval_of, args)), params)
        values = [x.peek() if type(x) is Ref else x for x in args]
        updates, outs = rule(*values, **params)
        for i, new in updates.items():
            args[i].store(new)
        return outs if prim.multiple_results else outs[0]

    return prim


def chosen(ref: Any, f: Callable) -> Any:
    """What a function of a reference gives; for one that `select_ref` chose among several, of that one."""
    return ref.apply(f) if type(ref) is SelectedRef else f(ref)


def split_view(ref: Any, api: str) -> tuple[Any, tuple]:
    """A reference or a view as the reference itself and the transforms that lead to the part."""
    transforms: tuple = ()
    if isinstance(ref, TransformedRef):
        ref, transforms = ref.ref, tuple(ref.transforms)
    if not is_ref(ref):
        raise ValueError(
            f"Can only call `{api}` on a `Ref`, got {ref!r} of type {type(ref).__name__}. A kernel gets references as its "
            f"arguments; elsewhere make one with xlab.new_ref(array)."
        )
    return ref, transforms


def check_ref(name: str, *avals: Any) -> None:
    """Raises unless all operands are references."""
    for aval in avals:
        if type(aval) is not AbstractRef:
            raise ValueError(f"`{name}` must be called on `Ref` types: {aval}.")


def view_text(ref: Any, transforms: tuple, names: Any) -> str:
    """A view as it stands in a printed program."""
    return names(ref) + ("".join(t.text() for t in transforms) or "[...]")


def shown(eqn: Any, names: Any, first: int) -> Any:
    """The operands from `first` on as text, in the structure that the parameter `tree` says."""
    leaves = [printing.atom_text(a, names).split(":")[0] for a in eqn.invars[first:]]
    return _tree.unflatten(eqn.params["tree"], leaves)
