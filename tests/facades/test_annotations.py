"""Public functions say what they take and return, in types that resolve, and explain arguments that are more than two."""

from __future__ import annotations

import inspect
import typing
from importlib import import_module

import pytest

ROOMS = ["xlab.lax", "xlab.lax.linalg", "xlab.nn", "xlab.nn.initializers", "xlab.numpy", "xlab.numpy.fft", "xlab.numpy.linalg", "xlab.random", "xlab.scipy.fft", "xlab.scipy.integrate", "xlab.scipy.linalg",
         "xlab.scipy.ndimage", "xlab.scipy.signal", "xlab.scipy.sparse.linalg", "xlab.scipy.special", "xlab.scipy.stats.norm", "xlab"]  # fmt: skip


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
