"""`kernel`: the decorator that makes a kernel a function of arrays, over a grid or on the cores of a mesh."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xlab.kernels.blocks import no_block_spec
from xlab.kernels.call import kernel_call
from xlab.kernels.grid import GridSpec
from xlab.kernels.interpret import Interpret
from xlab.kernels.mpmd import NOT_GIVEN, mpmd_map, one_of


def kernel(
    body: Any = NOT_GIVEN,
    out_shape: Any = NOT_GIVEN,
    *,
    out_type: Any = NOT_GIVEN,
    mesh: Any = None,
    grid_spec: GridSpec | None = None,
    grid: Any = (),
    in_specs: Any = no_block_spec,
    out_specs: Any = no_block_spec,
    scratch_shapes: Any = NOT_GIVEN,
    scratch_types: Any = NOT_GIVEN,
    input_output_aliases: Mapping[int, int] = {},
    compiler_params: Any = None,
    interpret: Interpret = False,
    debug: bool = False,
    cost_estimate: Any = None,
    name: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Callable[..., Any]:
    """A kernel as a function of arrays: on a mesh of cores it is an `mpmd_map`, without one a `kernel_call`.

    Args:
        body: the kernel, or several for as many meshes. Without it the result is a decorator.
        out_shape, out_type: types of the outputs; two names of one thing. By default there are none.
        mesh: a mesh of cores, or a sequence of them for a sequence of kernels.
        grid_spec, grid, in_specs, out_specs: of a `kernel_call`, not with a mesh.
        scratch_shapes, scratch_types: types of scratch memory; two names of one thing.
        input_output_aliases, compiler_params, interpret, debug, cost_estimate, name, metadata: as of both.

    Returns:
        A function of pytrees of arrays; without `body` a decorator.

    Raises:
        TypeError: both spellings of an argument are given.
        ValueError: a mesh together with a grid or block specs; kernels and meshes that are not as many.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> from xlab.kernels import CoreMesh, kernel
        >>> @kernel(out_shape=xlab.ShapeDtypeStruct((2,), "int32"), mesh=CoreMesh("core", 2), interpret=True)
        ... def twice(x_ref, o_ref):
        ...     i = xlab.lax.axis_index("core")
        ...     o_ref[i] = x_ref[i] * 2
        >>> twice(jnp.arange(2)).tolist()
        [0, 2]
    """
    outputs = one_of("out_shape", out_shape, "out_type", out_type)
    scratch = one_of("scratch_shapes", scratch_shapes, "scratch_types", scratch_types)
    options = {
        "input_output_aliases": input_output_aliases,
        "compiler_params": compiler_params,
        "interpret": interpret,
        "debug": debug,
        "cost_estimate": cost_estimate,
        "name": name,
        "metadata": metadata,
    }
    blocks = {"grid_spec": grid_spec, "grid": grid, "in_specs": in_specs, "out_specs": out_specs}
    if mesh is not None:
        unused = {
            "grid_spec": None,
            "grid": (),
            "in_specs": no_block_spec,
            "out_specs": no_block_spec,
        }
        clash = [n for n, x in blocks.items() if x is not unused[n] and x != unused[n]]
        if clash:
            raise ValueError(
                f"kernel got mesh and {', '.join(clash)}: on a mesh of cores every core sees whole arrays, and the grid is that of "
                f"the mesh. Leave one of them out."
            )

    def make(body: Any) -> Callable[..., Any]:
        if mesh is not None:
            return mpmd_map(_pairs(body, mesh), outputs, scratch_shapes=scratch, **options)
        if _is_sequence(body):
            raise ValueError(
                "kernel got a sequence of kernels without meshes: give a mesh for each"
            )
        return kernel_call(body, outputs, **blocks, scratch_shapes=scratch, **options)

    if body is not NOT_GIVEN and not (callable(body) or _is_sequence(body)):
        raise TypeError(
            f"kernel takes a function of references, or a sequence of them, got {body!r} of type {type(body).__name__}"
        )
    return make if body is NOT_GIVEN else make(body)


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str)


def _pairs(body: Any, mesh: Any) -> list[tuple[Any, Any]]:
    if not _is_sequence(body):
        if _is_sequence(mesh):
            raise ValueError(
                f"mesh cannot be a sequence when body is a single callable: got {len(mesh)} meshes for "
                f"{getattr(body, '__name__', body)}"
            )
        return [(mesh, body)]
    if not _is_sequence(mesh) or len(body) != len(mesh):
        raise ValueError(
            f"body and mesh sequences must have the same length: got {len(body)} kernels and "
            f"{len(mesh) if _is_sequence(mesh) else 'one mesh'}"
        )
    return list(zip(mesh, body))
