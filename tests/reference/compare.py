"""Compares two outcomes and says in words where they differ."""

from __future__ import annotations

import difflib

import numpy as np

from tests.reference.run import Leaf, Outcome
from tests.reference.sample import Sample

# Relative and absolute tolerance by dtype; integers and booleans are compared exactly.
TOLERANCE = {
    "float64": (1e-12, 1e-12),
    "complex128": (1e-12, 1e-12),
    "float32": (2e-5, 2e-6),
    "complex64": (2e-5, 2e-6),
    "float16": (2e-3, 2e-3),
    "bfloat16": (2e-2, 2e-2),
}
LOOSE = (0.25, 0.25)  # eight-bit floats and smaller: one step of their own


def differences(
    sample: Sample,
    ours: Outcome,
    theirs: Outcome,
    names=("xlab", "reference"),
    *,
    passing: bool = False,
) -> list[str]:
    """Every difference between two outcomes as a line of text; empty when they agree.

    Args:
        passing: whether an array agrees with NumPy data: tangents that pass through a function untouched come back as
            arrays here, while the reference hands some of them back as they were given.
    """
    if ours.error or theirs.error or sample.error:
        return error_differences(sample, ours, theirs, names)
    if ours.text is not None or theirs.text is not None:
        if ours.text == theirs.text:
            return []
        return [
            "the programs differ:",
            *difflib.unified_diff(
                (theirs.text or "").splitlines(),
                (ours.text or "").splitlines(),
                names[1],
                names[0],
                lineterm="",
            ),
        ]
    ours_at = {leaf.path: leaf for leaf in ours.leaves}
    theirs_at = {leaf.path: leaf for leaf in theirs.leaves}
    found = []
    for path in dict.fromkeys([*theirs_at, *ours_at]):
        if path not in ours_at or path not in theirs_at:
            found.append(f"{path}: only in the result of {names[path in theirs_at]}")
        else:
            found.extend(leaf_differences(sample, ours_at[path], theirs_at[path], names, passing))
    return found


def error_differences(sample, ours, theirs, names) -> list[str]:
    """Both must raise, with the same builtin base, and the class that the sample names."""
    said = [
        f"{o.error[0]}: {o.message.splitlines()[0] if o.message else ''}" if o.error else "no error"
        for o in (ours, theirs)
    ]
    both = f"{names[0]} gave {said[0]}\n    {names[1]} gave {said[1]}"
    if not ours.error or not theirs.error:
        return [f"errors: {both}"]
    if sample.error is None:
        return [f"both raise, and the sample names no error: {both}"]
    found = [
        f"error class: {sample.error} expected; {both}"
        for o in (ours, theirs)
        if sample.error not in o.error
    ][:1]
    if theirs.builtin not in ours.error:
        found.append(f"error base: {names[1]}'s is a {theirs.builtin}; {both}")
    return found


def leaf_differences(sample, ours: Leaf, theirs: Leaf, names, passing: bool) -> list[str]:
    found = []
    for what in ("kind", "dtype", "shape", "weak"):
        mine, other = getattr(ours, what), getattr(theirs, what)
        if mine != other and not (passing and (mine, other) == ("array", "numpy")):
            word = "weak type" if what == "weak" else what
            found.append(f"{ours.path}: {word}  {names[0]} {mine}  {names[1]} {other}")
    if ours.value is None or theirs.value is None or ours.shape != theirs.shape:
        return found
    return found + value_differences(ours.path, ours.value, theirs.value, sample.tol, names)


def value_differences(path: str, ours, theirs, tol=None, names=("xlab", "reference")) -> list[str]:
    """At most one line: how many entries differ, and the worst of them."""
    wrong, bound = mismatches(ours, theirs, tol)
    if not wrong.any():
        return []
    worst = np.unravel_index(
        np.argmax(np.where(wrong, _distance(ours, theirs), -1)), np.shape(ours)
    )
    at = f" at {tuple(map(int, worst))}" if np.ndim(ours) else ""
    return [
        f"{path}: values  {int(wrong.sum())} of {wrong.size} differ {bound}; worst{at}: "
        f"{names[0]} {ours[worst]}  {names[1]} {theirs[worst]}"
    ]


def mismatches(ours, theirs, tol=None):
    """`(mask of entries that differ, the bound in words)`."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    dtype = str(theirs.dtype)
    floating = "float" in dtype or "complex" in dtype
    if tol is None:
        rtol, atol = TOLERANCE.get(dtype, LOOSE) if floating else (0, 0)
    else:
        rtol, atol = tol if isinstance(tol, tuple) else (tol, tol)
    if not floating:
        return ours != theirs, "(compared exactly)"
    wide = np.complex128 if "complex" in dtype else np.float64
    ours, theirs = ours.astype(wide), theirs.astype(wide)
    close = np.isclose(ours, theirs, rtol=rtol, atol=atol, equal_nan=True)
    return ~close, f"by more than rtol {rtol:g}, atol {atol:g}"


def _distance(ours, theirs):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    wide = np.complex128 if "complex" in str(theirs.dtype) else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(ours.astype(wide) - theirs.astype(wide))
    return np.where(np.isnan(gap), np.inf, np.minimum(gap, 1e300)) + 1e-300
