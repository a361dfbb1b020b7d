"""Stepping a program of JAX's: the arguments, and the results beside JAX's own."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlab.core.array import KeyArray
from xlab.observe.beside import values
from xlab.observe.beside.calls import JaxProgram
from xlab.observe.beside.recognize import is_ours


def given_by_jax(program: JaxProgram, args: tuple, kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    """The arguments of a program, on the devices where JAX has them, and the structure of its results."""
    flat = program.flat(args, kwargs)
    if len(flat) != len(program.closed.in_avals):
        raise TypeError(program.takes(len(flat), len(program.closed.in_avals)))
    placed = []
    for x, aval in zip(flat, program.closed.in_avals):
        x = values.array(x)
        placed.append(x if is_ours(x) else np.asarray(x, aval.dtype))
    return placed, program.out_tree


def compared(program: JaxProgram, flat: list[Any], outs: list[Any]) -> str:
    """Our results beside those that JAX gives for the same arguments, in a sentence."""
    theirs = program.results([values.back(x) for x in flat])
    worst, where, wrong = 0.0, 0, False
    for i, (a, b) in enumerate(zip(outs, theirs)):
        found, allowed = _difference(_host(a), _host(values.array(b)))
        wrong = wrong or not found <= allowed
        if not found <= worst:
            worst, where = found, i
    name = program.version
    if not worst:
        return f"stepped to the end: the results equal those of {name} bit for bit"
    which = f" (result {where})" if len(outs) > 1 else ""
    if wrong:
        return (
            f"stepped to the end: the results DIFFER from those of {name}, by up to {worst:.2g} of the largest entry{which}: "
            "what a step shows need not be what JAX computes"
        )
    return f"stepped to the end: the results agree with those of {name}, to {worst:.1g} of the largest entry{which}"


def _host(x: Any) -> np.ndarray:
    return np.asarray(x.base if isinstance(x, KeyArray) else x)


def _difference(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """The largest difference relative to the largest entry, and what rounding may make of it: the root of the type's precision."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf"), 0.0
    if a.dtype.kind in "biuSV" and a.dtype.names is None and not _is_float(a.dtype):
        return (0.0 if np.array_equal(a, b) else float("inf")), 0.0
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b, dtype = a.astype(wide), b.astype(wide), a.dtype
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0, 0.0
    with np.errstate(invalid="ignore"):
        apart = np.abs(np.where(same, 0, a - b)).max()
    scale = np.abs(b[np.isfinite(b)]).max(initial=0.0)
    import ml_dtypes

    eps = float(ml_dtypes.finfo(dtype).eps)
    found = float(apart / scale) if scale else float(apart)
    return (found if np.isfinite(found) else float("inf")), eps**0.5


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "V" and "float" in dtype.name
