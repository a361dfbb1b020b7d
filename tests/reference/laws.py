"""What has to hold for every sample without a reference: laws between a function's transformations."""

from __future__ import annotations

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
    run,
    stacked,
    tangent,
    tree_map,
)
from tests.reference.sample import Case, Namespaces, Sample


def law(case: Case, n: Namespaces) -> list[str]:
    """The differences that the law of the case's transformation finds; empty when it holds.

    `jit(f) == f`; `vmap(f)` is a loop; `vjp` is the transpose of `jvp`.
    """
    return {"jit": jit_is_the_function, "vmap": vmap_is_a_loop, "grad": vjp_is_the_transpose}[
        case.transform](case.sample, n)


LAWS = ("jit", "vmap", "grad")


def jit_is_the_function(sample: Sample, n: Namespaces) -> list[str]:
    eager, jitted = (run(Case("", sample, transform), n) for transform in ("eager", "jit"))
    return _leafwise(sample, jitted, eager, ("jit(f)", "f"))


def vmap_is_a_loop(sample: Sample, n: Namespaces) -> list[str]:
    mapped = run(Case("", sample, "vmap"), n)
    batches = tree_map(stacked, tuple(sample.args))
    rows = [run(Case("", _with(sample, tree_map(lambda x, i=i: x[i], batches)), "eager"), n) for i in range(3)]
    failed = next((row for row in rows if row.error), None)
    if failed:
        return _leafwise(sample, mapped, failed, ("vmap(f)", "a loop"))
    stacks = [np.stack([leaf.value for leaf in same]) for same in zip(*(row.leaves for row in rows), strict=True)]
    if mapped.error:
        return [f"vmap(f) raised {mapped.error[0]}: {mapped.message}"]
    found = []
    for leaf, rows_of_it in zip(mapped.leaves, stacks, strict=True):
        if leaf.shape != rows_of_it.shape[:len(leaf.shape)]:   # keys stack their data behind
            found.append(f"{leaf.path}: shape  vmap(f) {leaf.shape}  a loop {rows_of_it.shape}")
        else:
            found += value_differences(leaf.path, leaf.value, rows_of_it, sample.tol, ("vmap(f)", "a loop"))
    return found


def vjp_is_the_transpose(sample: Sample, n: Namespaces) -> list[str]:
    """⟨ct, J t⟩ = ⟨Jᵀ ct, t⟩, in 64-bit sums of what the two transformations return."""
    fun, args = (lambda *args: sample.fun(n, *args)), placed(n, sample.args)
    pulled, _ = TRANSFORMS["grad"](n, fun, args)
    pushed, _ = TRANSFORMS["jvp"](n, fun, args)
    out, forward = pushed(*args)
    backward = pulled(*args)
    given = [tangent(x) for arg in args if (found := flat(arg)) and all(map(inexact, found)) for x in found]
    ahead = _dot([cotangent(x) for x in flat(out)], flat(forward))
    behind = _dot(flat(backward), given)
    scale = 1.0 + _size(flat(forward)) + _size(flat(backward))
    half = any(str(getattr(x, "dtype", "")) in ("float16", "bfloat16") for x in [*flat(out), *flat(args)])
    tol = (3e-2 if half else 1e-4) * scale
    if not np.isfinite(ahead) or abs(ahead - behind) <= tol:
        return []
    return [f"⟨ct, jvp(t)⟩ = {ahead}, ⟨vjp(ct), t⟩ = {behind}"]


def _dot(xs, ys) -> float:
    # The real part: all that is promised where a function is not complex-differentiable (`imag`, `abs`).
    total = 0j
    for x, y in zip(xs, ys, strict=True):
        if inexact(x) and inexact(y):
            total += np.sum(np.asarray(x).astype(np.complex128) * np.asarray(y).astype(np.complex128))
    return float(total.real)


def _size(xs) -> float:
    return sum(float(np.sum(np.abs(np.asarray(x).astype(np.complex128)))) for x in xs if inexact(x))


def _with(sample: Sample, args) -> Sample:
    return replace(sample, args=args)


def _leafwise(sample: Sample, one: Outcome, other: Outcome, names) -> list[str]:
    if one.error or other.error:
        return [f"{name} raised {o.error[0]}: {o.message}" for name, o in zip(names, (one, other), strict=True)
                if o.error]
    found = []
    for mine, theirs in zip(one.leaves, other.leaves, strict=True):
        for what in ("dtype", "shape", "weak"):
            if getattr(mine, what) != getattr(theirs, what):
                found.append(f"{mine.path}: {what}  {names[0]} {getattr(mine, what)}  {names[1]} {getattr(theirs, what)}")
        if mine.value is not None and theirs.value is not None and mine.shape == theirs.shape:
            found += value_differences(mine.path, mine.value, theirs.value, sample.tol, names)
    return found
