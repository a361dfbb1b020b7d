"""What programs with findings are made of: values, where they lie, and a case of a finding."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import xlab
import xlab.numpy as jnp
from xlab import P, lax
from xlab.sharding import AxisType, NamedSharding, make_mesh


def ones(*shape):
    return np.full(shape, 0.01, np.float32)


def narrow(*shape):
    return jnp.full(shape, 0.01, jnp.bfloat16)


@functools.cache
def mesh():
    return make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def put(x, *spec):
    return xlab.device_put(x, NamedSharding(mesh(), P(*spec)))


def held(x, *spec):
    return lax.with_sharding_constraint(x, NamedSharding(mesh(), P(*spec)))


class Case(NamedTuple):
    """A program with a finding, the same without it, and the same with the change as the finding says it, where that is another one.

    Attributes:
        bound: the change does at least what the finding says: it was found for a part of the program alone.
    """

    kind: str
    name: str
    program: Callable[..., Any]
    args: tuple
    mended: Callable[..., Any]
    mended_args: tuple
    applied: Callable[..., Any]
    applied_args: tuple
    bound: bool = False


def case(
    kind,
    name,
    program,
    args,
    mended=None,
    mended_args=None,
    *,
    applied=None,
    applied_args=None,
    bound=False,
):
    mended, mended_args = mended or program, mended_args or args
    applied_args = applied_args or (args if applied else mended_args)
    return Case(
        kind, name, program, args, mended, mended_args, applied or mended, applied_args, bound
    )
