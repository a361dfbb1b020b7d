"""What has to hold for every sample without a reference: laws between a function's transformations."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from tests.reference.compare import value_differences
from tests.reference.run import (
    TRANSFORMS,
    Outcome,
    cotangent,
    flat,
    inexact,
    placed,
    remembered,
    run,
    stacked,
    tangent,
    tree_map,
)
from tests.reference.sample import Case, Namespaces, Sample


def law(case: Case, n: Namespaces) -> list[str]:
    """The differences that the law of the case's transformation finds; empty when it holds.

    `jit(f) == f`; `vmap(f)` is a loop; `jvp` is a difference quotient; `vjp` is the transpose of `jvp`.
    """
    return LAWS[case.transform](case.sample, n)


def jit_is_the_function(sample: Sample, n: Namespaces) -> list[str]:
    eager, jitted = (remembered(sample, transform, n) for transform in ("eager", "jit"))
    return _leafwise(sample, jitted, eager, ("jit(f)", "f"))


def vmap_is_a_loop(sample: Sample, n: Namespaces) -> list[str]:
    mapped = remembered(sample, "vmap", n)
    batches = tree_map(stacked, tuple(sample.args))
    rows = [
        run(Case("", _with(sample, tree_map(lambda x, i=i: x[i], batches)), "eager"), n)
        for i in range(3)
    ]
    failed = next((row for row in rows if row.error), None)
    if failed:
        return _leafwise(sample, mapped, failed, ("vmap(f)", "a loop"))
    stacks = [
        np.stack([leaf.value for leaf in same])
        for same in zip(*(row.leaves for row in rows), strict=True)
    ]
    if mapped.error:
        return [f"vmap(f) raised {mapped.error[0]}: {mapped.message}"]
    found = []
    for leaf, rows_of_it in zip(mapped.leaves, stacks, strict=True):
        if leaf.shape != rows_of_it.shape[: len(leaf.shape)]:  # keys stack their data behind
            found.append(f"{leaf.path}: shape  vmap(f) {leaf.shape}  a loop {rows_of_it.shape}")
        else:
            found += value_differences(
                leaf.path, leaf.value, rows_of_it, sample.tol, ("vmap(f)", "a loop")
            )
    return found


def vjp_is_the_transpose(sample: Sample, n: Namespaces) -> list[str]:
    """⟨ct, J t⟩ = ⟨Jᵀ ct, t⟩, in 64-bit sums of what the two transformations return."""
    pulled, pushed = outcomes = tuple(
        remembered(sample, transform, n) for transform in ("grad", "jvp")
    )
    if pulled.error or pushed.error:
        return _raised(outcomes, ("vjp", "jvp"))
    out, forward = (
        [leaf for leaf in pushed.leaves if leaf.path.startswith(f"result[{i}]")] for i in (0, 1)
    )
    moving = [(y.value, t.value) for y, t in zip(out, forward, strict=True) if t.value is not None]
    backward = [leaf.value for leaf in pulled.leaves if leaf.value is not None]
    given = [
        tangent(x)
        for arg in sample.args
        if (found := flat(arg)) and all(map(inexact, found))
        for x in found
    ]
    ahead = _dot([cotangent(y) for y, _ in moving], [t for _, t in moving])
    behind = _dot(backward, given)
    scale = 1.0 + _size(t for _, t in moving) + _size(backward)
    half = any(
        dtype in ("float16", "bfloat16")
        for dtype in [
            *(leaf.dtype for leaf in out),
            *(str(getattr(x, "dtype", "")) for x in flat(sample.args)),
        ]
    )
    tol = (3e-2 if half else 1e-4) * scale
    if not np.isfinite(ahead) or abs(ahead - behind) <= tol:
        return []
    return [f"⟨ct, jvp(t)⟩ = {ahead}, ⟨vjp(ct), t⟩ = {behind}"]


def jvp_is_a_difference(sample: Sample, n: Namespaces) -> list[str]:
    """J t = (f(x + ε t) − f(x − ε t)) / 2ε, with 64-bit arguments; functions that narrow them are let pass."""
    if not sample.smooth:
        return []
    with n.jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fun = lambda *args: sample.fun(n, *args)
        args = placed(n, tree_map(_wide, tuple(sample.args)))
        moved = [bool(found := flat(arg)) and all(map(inexact, found)) for arg in args]

        def at(step):
            return [
                np.asarray(x)
                for x in flat(
                    fun(
                        *(
                            tree_map(lambda x: x + step * tangent(x), arg) if moves else arg
                            for arg, moves in zip(args, moved, strict=True)
                        )
                    )
                )
                if inexact(x)
            ]

        ahead, behind = at(EPSILON), at(-EPSILON)
        if not any(moved) or any(x.dtype not in (np.float64, np.complex128) for x in ahead):
            return []
        pushed, _ = TRANSFORMS["jvp"](n, fun, args)
        out, slope = pushed(*args)
        slopes = [np.asarray(t) for x, t in zip(flat(out), flat(slope), strict=True) if inexact(x)]
    found = []
    for number, (a, b, t) in enumerate(zip(ahead, behind, slopes, strict=True)):
        found += value_differences(
            f"result {number}",
            t,
            (a - b) / (2 * EPSILON),
            (1e-5, 1e-6),
            ("jvp", "a difference quotient"),
        )
    return found


EPSILON = 1e-6
LAWS = {
    "jit": jit_is_the_function,
    "vmap": vmap_is_a_loop,
    "jvp": jvp_is_a_difference,
    "grad": vjp_is_the_transpose,
}


def _wide(x):
    """An argument in 64 bits, where it has 32."""
    dtype = {"float32": np.float64, "complex64": np.complex128}.get(str(getattr(x, "dtype", "")))
    return x if dtype is None else x.astype(dtype)


def _dot(xs, ys) -> float:
    # The real part: all that is promised where a function is not complex-differentiable (`imag`, `abs`).
    total = 0j
    for x, y in zip(xs, ys, strict=True):
        if inexact(x) and inexact(y):
            total += np.sum(
                np.asarray(x).astype(np.complex128) * np.asarray(y).astype(np.complex128)
            )
    return float(total.real)


def _size(xs) -> float:
    return sum(float(np.sum(np.abs(np.asarray(x).astype(np.complex128)))) for x in xs if inexact(x))


def _with(sample: Sample, args) -> Sample:
    return replace(sample, args=args)


def _leafwise(sample: Sample, one: Outcome, other: Outcome, names) -> list[str]:
    if one.error or other.error:
        return _raised((one, other), names)
    found = []
    for mine, theirs in zip(one.leaves, other.leaves, strict=True):
        for what in ("dtype", "shape", "weak"):
            if getattr(mine, what) != getattr(theirs, what):
                found.append(
                    f"{mine.path}: {what}  {names[0]} {getattr(mine, what)}  {names[1]} {getattr(theirs, what)}"
                )
        if mine.value is not None and theirs.value is not None and mine.shape == theirs.shape:
            found += value_differences(mine.path, mine.value, theirs.value, sample.tol, names)
    return found


def _raised(outcomes, names) -> list[str]:
    return [
        f"{name} raised {outcome.error[0]}: {outcome.message}"
        for name, outcome in zip(names, outcomes, strict=True)
        if outcome.error
    ]
