"""The stages of compilation as inspectable objects: `Traced`, `Lowered`, `Compiled`."""

from collections.abc import Callable as _Callable
from typing import Any as _Any

from xlab.compile.stages import ArgInfo, Compiled, Lowered, ShapeDtypeStruct, Traced

CompilerOptions = dict[str, str | bool | int | float]
Wrapped = _Callable[..., _Any]

__all__ = [
    "ArgInfo",
    "Compiled",
    "CompilerOptions",
    "Lowered",
    "ShapeDtypeStruct",
    "Traced",
    "Wrapped",
]
