"""What a test file uses: `cases` to parametrize, `check` against the reference, `check_law` without it."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from functools import cache
from unittest import mock

import pytest

from tests.reference import laws
from tests.reference.compare import differences
from tests.reference.oracle import QUICK, Oracle
from tests.reference.run import remembered
from tests.reference.sample import Case, Namespaces, Sample, load, namespaces


@contextmanager
def compiled_quickly():
    """What is compiled inside is compiled without the optimizations that take the compiler longest, as the reference's side is.

    XLAB_TEST_OPTIMIZED=1 compiles as users do.
    """
    from xlab.backend import compiling

    made = compiling.compile_options

    def quick(*args, options=None, **kwargs):
        return made(*args, options={**QUICK, **(options or {})}, **kwargs)

    with mock.patch.object(
        compiling, "compile_options", made if os.environ.get("XLAB_TEST_OPTIMIZED") else quick
    ):
        yield


def cases(table: str):
    """Parametrizes a test with `case` and marks it `reference`: every sample under every transformation.

    Where a law ties a transformation to the function, one of a sample's is compared in every run and the others, marked `whole`,
    where all tests are asked for: the function itself is always compared, and the laws always hold.
    """
    found = load(table)
    of_sample = _by_sample(filter(has_law, found))
    return _parametrized(
        found,
        pytest.mark.reference,
        lambda case: (
            case.transform not in (tied := of_sample.get(case.sample.name, ()))
            or case.transform == chosen(case.sample, tied, "reference ")
        ),
        pytest.mark.whole,
    )


def _by_sample(found: Iterable[Case]) -> dict[str, list[str]]:
    """The transformations of cases, by the name of their sample."""
    out: dict[str, list[str]] = {}
    for case in found:
        out.setdefault(case.sample.name, []).append(case.transform)
    return out


def has_law(case: Case) -> bool:
    """Whether a law ties the case's transformation to the function."""
    sample = case.sample
    return case.transform in laws.LAWS and sample.lawful and sample.error is None and not sample.x64


def law_cases(table: str | Iterable[Case]):
    """Parametrizes a test with the cases whose transformation has a law (`jit`, `vmap`, `jvp`, `grad`) and marks it `law`.

    Args:
        table: the name of a table, or cases that are in none.
    """
    found = (
        list(table)
        if not isinstance(table, str)
        else [case for case in load(table) if has_law(case)]
    )
    of_sample = _by_sample(found)
    return _parametrized(
        found,
        pytest.mark.law,
        lambda case: case.transform == chosen(case.sample, of_sample[case.sample.name]),
        pytest.mark.sweep,
    )


def chosen(sample: Sample, transforms: Sequence[str], of: str = "") -> str:
    """The transformation that stands for all in a smaller run `of` a kind: always the same one of a sample, another one of another."""
    return transforms[zlib.crc32((of + sample.name).encode()) % len(transforms)]


def _parametrized(found: list[Case], mark, taken: Callable[[Case], bool], left):
    parametrize = pytest.mark.parametrize(
        "case",
        [pytest.param(case, id=case.id, marks=() if taken(case) else left) for case in found],
    )
    return lambda test: mark(parametrize(test))


def check(case: Case, oracle: Oracle):
    """Runs the case on both sides and fails with every difference."""
    oracle.ask(case)
    with compiled_quickly():
        ours = remembered(case.sample, case.transform, subject())
    theirs = oracle.answer()
    report(
        case,
        "differs from the reference",
        differences(
            case.sample,
            ours,
            theirs,
            passing=not {"grad", "jvp", "linearize"}.isdisjoint(case.transform.split(".")),
        ),
    )


def check_law(case: Case):
    """Runs the law of the case's transformation."""
    with compiled_quickly():
        broken = laws.law(case, subject())
    report(case, "breaks a law", broken)


def report(case: Case, headline: str, found: list[str]):
    __tracebackhide__ = True
    if found:
        pytest.fail(
            f"{case.sample.name} [{case.transform}] {headline}:\n  " + "\n  ".join(found),
            pytrace=False,
        )


@cache
def subject() -> Namespaces:
    """The side under test. `XLAB_TEST_SUBJECT=jax` checks the tables themselves: nothing may differ then."""
    return namespaces(os.environ.get("XLAB_TEST_SUBJECT", "xlab"))
