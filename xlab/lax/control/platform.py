"""`platform_dependent`: code that differs between platforms, chosen when the program is lowered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.backend.client import default_backend
from xlab.core.array import is_native_array
from xlab.core.avals import ShapedArray
from xlab.core.current_trace import enclosing_traces
from xlab.core.primitive import Primitive
from xlab.errors import MissingRule
from xlab.interpreters import ad, batching, costs, mlir
from xlab.lax.control.common import check_callables
from xlab.lax.control.cond import choose

__all__ = ["platform_dependent", "platform_index_p"]


def platform_dependent(
    *args: Any, default: Callable | None = None, **per_platform: Callable
) -> Any:
    """Calls the function given for the platform that the program will run on.

    All of them are traced and must return the same structure, shapes and dtypes; only one is compiled.

    Args:
        args: arrays or pytrees, passed to the functions.
        default: for platforms that are not named; without it, the program cannot be lowered for those.
        per_platform: a function per platform: `cpu`, `cuda`, `rocm`, `tpu`.

    Example:
        >>> from xlab import lax
        >>> float(lax.platform_dependent(2.0, cpu=lambda x: x + 1, cuda=lambda x: x + 2, default=lambda x: x))
        3.0
    """
    if "gpu" in per_platform:
        raise ValueError(
            "platform_dependent tells GPUs apart: use 'cuda' or 'rocm' instead of 'gpu'"
        )
    check_callables(
        "platform_dependent", **per_platform, **({} if default is None else {"default": default})
    )
    platforms = (*((name,) for name in per_platform), *(() if default is None else (None,)))
    if not platforms:
        raise MissingRule(
            "platform_dependent needs at least one function, for a platform (cpu=f) or for all others (default=f)"
        )
    branches = (*per_platform.values(), *(() if default is None else (default,)))
    if not any(trace.makes_programs for trace in enclosing_traces()):  # runs here and now
        return branches[mlir.branch_for_platform(_platform_of(args), platforms)](*args)
    return choose(
        "platform_dependent",
        platform_index_p.bind(platforms=platforms),
        branches,
        args,
        branches_platforms=platforms,
    )


def _platform_of(args) -> str:
    """Where operations on these values run."""
    for x in _tree.leaves(args):
        if is_native_array(x) and x.committed:
            return next(iter(x.devices())).platform
    return default_backend()


platform_index_p = Primitive("platform_index")
platform_index_p.def_abstract_eval(lambda *, platforms: ShapedArray((), np.int32))
ad.primitive_jvps.excuse(platform_index_p, "it has no operands")
ad.primitive_transposes.excuse(platform_index_p, "it has no operands")
batching.primitive_batchers.excuse(platform_index_p, "it has no operands")


def _lowering(ctx, *, platforms):
    return ctx.constant(
        np.int32(mlir.branch_for_platform(ctx.platform, platforms)), ctx.avals_out[0]
    )


mlir.register_text_lowering(platform_index_p, _lowering)

costs.register(costs.free, platform_index_p)
