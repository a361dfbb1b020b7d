"""Public functions say what they take and return, in types that resolve, and explain arguments that are more than two."""

from __future__ import annotations

import inspect
import typing
from importlib import import_module

import pytest

from xlab.scipy import stats

ROOMS = [
    "xlab",
    *(f"xlab.{room}" for room in ("kernels", "lax", "nn", "numpy", "random")),
    *(f"xlab.{room}" for room in ("lax.linalg", "nn.initializers", "numpy.fft", "numpy.linalg")),
    *(
        f"xlab.scipy.{room}"
        for room in ("fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal")
    ),
    *(f"xlab.scipy.{room}" for room in ("cluster.vq", "sparse.linalg", "special")),
    *(f"xlab.scipy.stats.{name}" for name in stats._DISTRIBUTIONS),
]


def functions(room):
    """The public functions of a room that are its own Python."""
    module = import_module(room)
    for name in getattr(module, "__all__", None) or dir(module):
        fun = getattr(module, name)
        if (
            not name.startswith("_")
            and inspect.isfunction(inspect.unwrap(fun))
            and inspect.unwrap(fun).__module__.startswith(room)
        ):
            yield name, inspect.unwrap(fun)


@pytest.mark.parametrize("room", ROOMS)
def test_every_parameter_and_result_has_a_type(room):
    bare = []
    for name, fun in functions(room):
        hints = typing.get_type_hints(fun)
        bare += [f"{name}: {p}" for p in inspect.signature(fun).parameters if p not in hints]
        bare += [f"{name}: its result"] * ("return" not in hints)
    assert not bare


@pytest.mark.parametrize("room", ROOMS)
def test_more_than_two_arguments_are_explained(room):
    assert not [
        name
        for name, fun in functions(room)
        if len(inspect.signature(fun).parameters) > 2 and "Args:" not in (fun.__doc__ or "")
    ]
