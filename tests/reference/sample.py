"""`Sample`: one row of a table, and the namespaces its function gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

ALL = ("eager", "jit", "grad", "jvp", "vmap")  # for differentiable functions
WHOLE = ("eager", "jit", "vmap")  # for integer results and the like
VALUE = ("eager", "jit")  # for what has no operand to map over


class Namespaces(NamedTuple):
    """The modules of one side under the names tables use."""

    jax: Any
    jnp: Any
    lax: Any
    nn: Any
    random: Any
    name: str


def namespaces(name: str) -> Namespaces:
    """The namespaces of `xlab` or of the reference, `jax`."""
    modules = [import_module(name)]
    for part in ("numpy", "lax", "nn", "random"):
        modules.append(import_module(f"{name}.{part}"))
    return Namespaces(*modules, name)


@dataclass(frozen=True)
class Sample:
    """A function, its arguments, and the transformations to compare it under.

    Attributes:
        name: unique within the table.
        fun: called as `fun(n, *args)` with the namespaces of one side.
        args: numpy arrays and Python scalars, or lists, tuples and dicts of them.
        transforms: names from `run.TRANSFORMS`, composed with dots from the outside in: `"jit.grad"`.
            `"primitives"` and `"text"` compare the jaxpr's primitives and its printed form, `"computing"` its primitives without
            transpositions: the reference multiplies cotangents in an order that has to be transposed, and xlab does not.
        tol: relative and absolute tolerance of floats, one number or a pair; None takes the dtype's.
        error: name of the error class both sides must raise, for bad input.
        x64: run with 64-bit types enabled.
        lawful: whether `laws.py` applies (some functions promise a derivative that is not theirs).
        smooth: whether difference quotients with 64-bit arguments apply to it.
    """

    name: str
    fun: Callable = field(repr=False)
    args: tuple | list = field(default=(), repr=False)
    transforms: tuple = ALL
    tol: float | tuple | None = None
    error: str | None = None
    x64: bool = False
    lawful: bool = True
    smooth: bool = True


@dataclass(frozen=True)
class Case:
    """One sample under one transformation: what one test compares."""

    table: str
    sample: Sample
    transform: str

    @property
    def id(self) -> str:
        return f"{self.sample.name}-{self.transform}"


def load(table: str) -> list[Case]:
    """Every case of the table module of that name.

    Raises:
        ValueError: when two samples of the table share a name.
    """
    found: list[Case] = []
    seen: set[str] = set()
    for sample in import_module(table).SAMPLES:
        if sample.name in seen:
            raise ValueError(f"two samples of {table} are called {sample.name!r}")
        seen.add(sample.name)
        transforms = ("eager",) if sample.error and sample.transforms is ALL else sample.transforms
        found.extend(Case(table, sample, transform) for transform in transforms)
    return found
