"""Eager evaluation, the interpreter that compiles a program for each primitive, under the names that programs import.

Its rule for all primitives is in `compile/dispatch.py`; a primitive with a rule of its own (`def_impl`) does not come to it.
"""

from __future__ import annotations

from typing import Any

from xlab.backend.client import Client as Backend
from xlab.core import trace as _trace
from xlab.core.primitive import Primitive

__all__ = ["Backend", "apply_primitive"]


def apply_primitive(prim: Primitive, *args: Any, **params: Any) -> Any:
    """Runs a primitive on concrete values, by a compiled program with nothing else in it.

    It is how primitives run that have no `impl` rule; with one, `prim.def_impl(functools.partial(apply_primitive, prim))` says so.

    Args:
        prim: the primitive, which has types (`def_abstract_eval`) and a lowering for the platform.
        args: arrays and numbers, its operands.
        params: its parameters, which have to be hashable.

    Returns:
        An array; a list of them where the primitive has several results.

    Raises:
        NotImplementedError: a rule is missing.
        TypeError: an operand is no array, or a parameter has no hash.

    Example:
        >>> from xlab import lax
        >>> apply_primitive(lax.neg_p, 3.0)
        Array(-3., dtype=float32, weak_type=True)
    """
    return _trace.apply_primitive(prim, *args, **params)
