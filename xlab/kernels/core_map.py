"""`core_map`: a function of nothing but scratch that changes the references it closes over, on every core of a mesh."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from xlab.core.primitive import Primitive
from xlab.core.refs import is_ref
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.discharge import discharge_rules
from xlab.kernels.cost import checked_cost
from xlab.kernels.interpret import Interpret, checked, resolve
from xlab.kernels.mesh import KernelMesh, super_mesh_shape
from xlab.kernels.mpmd import NOT_GIVEN, external_meshes, one_of
from xlab.kernels.mpmd_primitive import (
    batch_mpmd_map,
    bind_on_values,
    mpmd_map_effects,
    partial_eval_mpmd_map,
    refuse_derivative,
)
from xlab.kernels.mpmd_trace import kernel_refs, trace_pairs
from xlab.kernels.params import checked_compiler_params, checked_metadata
from xlab.kernels.trace import call_kernel, split_scratch


def core_map(
    mesh: Any,
    *,
    scratch_shapes: Any = NOT_GIVEN,
    scratch_types: Any = NOT_GIVEN,
    compiler_params: Any = None,
    interpret: Interpret = False,
    debug: bool = False,
    cost_estimate: Any = None,
    name: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., None]], None]:
    """Runs the function that it decorates on every core of a mesh, at once.

    The function takes references to scratch memory only. It reads and writes references that it closes over, and returns None.

    Args:
        mesh: of cores.
        scratch_shapes, scratch_types: types of scratch memory; two names of one thing. A dictionary is passed by keyword.
        compiler_params: options for a platform's compiler, stored only on CPUs.
        interpret: True or "compiled" runs it as a compiled program, "value" or `InterpretParams` equation by equation.
        debug: print the jaxpr of the function.
        cost_estimate: a `CostEstimate`.
        name: stands for the function's name in programs and messages.
        metadata: strings attached to the operation.

    Returns:
        A decorator that runs the function and gives None.

    Raises:
        TypeError: both spellings of an argument are given.
        NotImplementedError: `mesh` is no mesh of cores.
        ValueError: the function returns something or closes over arrays.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> from xlab.kernels import CoreMesh, core_map
        >>> x, y = xlab.new_ref(jnp.arange(2)), xlab.new_ref(jnp.zeros(2, int))
        >>> @core_map(CoreMesh("core", 2), interpret=True)
        ... def _():
        ...     i = xlab.lax.axis_index("core")
        ...     y[i] = x[i] + 10
        >>> y
        Ref([10, 11], dtype=int32)
    """
    checked(interpret)
    if not isinstance(mesh, KernelMesh):
        raise NotImplementedError(
            f"core_map takes a mesh of cores, such as CoreMesh('core', 2), got {mesh!r} of type {type(mesh).__name__}"
        )
    scratch, tree = split_scratch(
        one_of("scratch_shapes", scratch_shapes, "scratch_types", scratch_types)
    )
    own = kernel_refs("scratch", scratch, [f"scratch[{i}]" for i in range(len(scratch))], [mesh])
    external = external_meshes([mesh], own)

    def run(f: Callable[..., None]) -> None:
        def call(f, refs):
            extra = tree.unflatten(refs)
            return call_kernel(f, (), (), extra)

        (jaxpr,), captured = trace_pairs(
            [mesh], [f], call, ((), (), own), [], super_mesh_shape([mesh, *external]), name
        )
        if debug:
            print(f"jaxpr for {mesh.core_type}\n{jaxpr}")
        core_map_p.bind(
            *captured,
            jaxpr=jaxpr,
            mesh=mesh,
            external_meshes=external,
            compiler_params=checked_compiler_params(compiler_params),
            interpret=resolve(interpret),
            debug=debug,
            cost_estimate=checked_cost(cost_estimate),
            metadata=checked_metadata(metadata),
            name=name or jaxpr.jaxpr.debug_info.name,
        )

    return run


# -- the primitive: an `mpmd_map` without arguments and outputs -----------------------------------------------

core_map_p = Primitive("core_map", multiple_results=True, auto_pvary=False)
core_map_p.takes_refs = True


def as_mpmd_map(params: Mapping[str, Any], num_operands: int) -> dict[str, Any]:
    """The parameters of the `mpmd_map` that is the same."""
    new = dict(params)
    return {
        **new,
        "meshes": (new.pop("mesh"),),
        "jaxprs": (new.pop("jaxpr"),),
        "out_avals": (),
        "input_output_aliases": (),
        "num_captured": num_operands,
    }


@core_map_p.def_effectful_abstract_eval
def _core_map_aval(*avals, **params):
    return [], mpmd_map_effects(avals, as_mpmd_map(params, len(avals)))


def _core_map_jvp(primals, tangents, **params):
    refuse_derivative("core_map", tangents)
    core_map_p.bind(*primals, **params)
    return [], []


def _core_map_batch(axis, operands, dims, **params):
    if all(d is None for d in dims):
        return core_map_p.bind(*operands, **params), []
    return batch_mpmd_map(axis, operands, dims, **as_mpmd_map(params, len(operands)))


@functools.partial(discharge_rules.__setitem__, core_map_p)
def _core_map_discharge(eqn, ref_mask, operands):
    return bind_on_values(operands, ref_mask, as_mpmd_map(eqn.params, len(operands)))


@mlir.text_rule
def _core_map_lowering(ctx, *args, **params):
    raise ValueError(
        f"the core_map of {params['name']} at {ctx.eqn.source_info} cannot be lowered without discharging its references first, and it "
        f"closes over none: whatever it computes is lost. Write its results to a reference, xlab.new_ref(array)."
    )


@core_map_p.def_impl
def _core_map_impl(*operands, **params):
    """Runs it on the values of the references, and stores the new ones."""
    ref_mask = [is_ref(x) for x in operands]
    values = [x.peek() if r else x for x, r in zip(operands, ref_mask)]
    updates, outs = bind_on_values(values, ref_mask, as_mpmd_map(params, len(operands)))
    for i, x in updates.items():
        operands[i].store(x)
    return outs


ad.primitive_jvps[core_map_p] = _core_map_jvp
ad.primitive_transposes.excuse(core_map_p, "it has no derivative and is never linear")
batching.axis_primitive_batchers[core_map_p] = _core_map_batch
pe.partial_eval_rules[core_map_p] = functools.partial(partial_eval_mpmd_map, core_map_p)
mlir.register_text_lowering(core_map_p, _core_map_lowering)
