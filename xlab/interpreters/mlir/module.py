"""From a closed jaxpr to a StableHLO module, as text: its functions, and what the compiler and the caller have to know besides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from xlab.backend.values import fresh, record_class
from xlab.core import effects as _effects
from xlab.core.avals import symbolic_types
from xlab.core.dim_equations import Equations
from xlab.core.jaxpr import ClosedJaxpr, number_equations
from xlab.interpreters.mlir.constants import all_consts, check_closed_over, is_hoisted, prefetch
from xlab.interpreters.mlir.context import function_text
from xlab.interpreters.mlir.dynamic_shapes import (
    dynamic_functions,
    is_dynamic,
    marked_dimensions,
)
from xlab.interpreters.mlir.module_builder import ModuleBuilder


@record_class
class LoweredModule:
    """A lowered program: its text, and what the caller has to know besides it."""

    text: str
    name: str
    # Constants passed before the arguments, as native code passes them.
    hoisted: list[Any] = fresh(factory=list)
    callbacks: list[Callable] = fresh(factory=list)
    partitioners: list[Any] = fresh(factory=list)  # what partitions custom calls of this process
    inspections: list[Any] = fresh(factory=list)  # what is told the compiler's shardings
    shards: bool = False  # names a mesh
    ordered: tuple = ()  # effects with a token: leading argument and leading result
    dynamic: bool = False  # has symbolic shapes


def lower_module(
    closed: ClosedJaxpr,
    name: str,
    *,
    platform: str = "cpu",
    devices: int = 1,
    assignment: Sequence = (),
    arg_attributes: Callable | None = None,
    result_attributes: Callable | None = None,
    numbers: dict[int, int] | None = None,
    typed_mesh: Any = None,
    manual_mesh: Any = None,
) -> LoweredModule:
    """Lowers a program to a module with one public function `main`.

    `assignment` lists the devices in the program's order. `arg_attributes(meshes)` and `result_attributes(meshes)` give the attribute text of each argument and result
    (shardings, donation), empty or starting with a space. `numbers` are those of the equations, if the program is part of a larger one;
    `typed_mesh` is the mesh whose axes types may name. With `manual_mesh` the program is what one device of that mesh runs, all of whose
    axes are bound, and its constants stand in the text.
    """
    module = ModuleBuilder(name, platform, devices, assignment, typed_mesh)
    module.numbers = number_equations(closed.jaxpr) if numbers is None else numbers
    hoisted = [] if manual_mesh is not None else list(filter(is_hoisted, all_consts(closed)))
    for c in hoisted:
        check_closed_over(c)
    prefetch(closed, hoisted)
    dynamic = symbolic_types.in_use and is_dynamic(closed.in_avals)
    with marked_dimensions() if dynamic else nullcontext():
        main = function_text(
            module,
            "main",
            closed,
            f"jit({name})",
            mesh=manual_mesh,
            manual=() if manual_mesh is None else tuple(manual_mesh.axis_names),
            public=True,
            arg_attributes=arg_attributes(module.meshes) if arg_attributes else None,
            result_attributes=result_attributes(module.meshes) if result_attributes else None,
            hoisted=hoisted,
        )
    functions = [main, *module.functions]
    if dynamic:
        equations = Equations(
            [getattr(a, "shape", ()) for a in closed.in_avals],
            [closed.jaxpr.debug_info.arg_name(i) for i in range(len(closed.in_avals))],
        )
        functions = dynamic_functions(functions, closed.in_avals, equations)
    symbol = "jit_" + "".join(c if c.isalnum() or c in "_." else "_" for c in name)
    meshes = module.meshes.lines()
    text = "\n".join(
        [
            *module.files,
            f"module @{symbol} attributes {{mhlo.num_partitions = {devices} : i32, mhlo.num_replicas = 1 : i32}} {{",
            *meshes,
            *functions,
            "}",
            "",
        ]
    )
    return LoweredModule(
        module.annotations.attached(text),
        name,
        hoisted,
        module.callbacks,
        module.partitioners,
        module.inspections,
        bool(meshes),
        _effects.in_order(closed.effects),
        dynamic,
    )
