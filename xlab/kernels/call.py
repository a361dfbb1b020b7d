"""`kernel_call`: runs a kernel over a grid of blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from xlab import tree as _tree
from xlab.compile.jit import jit
from xlab.core.avals import aval_of
from xlab.core.refs import AbstractRef
from xlab.core.trace import EVAL, state
from xlab.kernels.blocks import no_block_spec
from xlab.kernels.call_primitive import kernel_call_p
from xlab.kernels.grid import GridSpec, grid_mapping
from xlab.kernels.interpret import Interpret, checked, resolve
from xlab.kernels.memory import as_ref_aval
from xlab.kernels.trace import split_scratch, trace_kernel


def kernel_call(
    kernel: Callable[..., None],
    out_shape: Any,
    *,
    grid_spec: GridSpec | None = None,
    grid: Any = (),
    in_specs: Any = no_block_spec,
    out_specs: Any = no_block_spec,
    scratch_shapes: Any = (),
    input_output_aliases: Mapping[int, int] = {},
    debug: bool = False,
    interpret: Interpret = False,
    name: str | None = None,
    compiler_params: Any = None,
    cost_estimate: Any = None,
    metadata: Mapping[str, str] | None = None,
) -> Callable[..., Any]:
    """A function of arrays that runs `kernel` once per step of a grid, on blocks of the arrays.

    Args:
        kernel: gets references: to prefetched scalars, to the blocks of the arguments, of the outputs, and to scratch.
            It writes the outputs and returns None.
        out_shape: types of the outputs (`ShapeDtypeStruct`, `MemoryRef`), one or a pytree.
        grid_spec: grid, specs and scratch in one; then the next four are not given.
        grid: sizes of the grid's axes.
        in_specs: a `BlockSpec` per argument; by default whole arrays.
        out_specs: a `BlockSpec` per output.
        scratch_shapes: types of memory that lives from step to step; a dictionary is passed by keyword.
        input_output_aliases: flat argument to flat output: the output starts as that argument.
        debug: print the kernel's jaxpr and its grid.
        interpret: True or "compiled" runs it as one compiled loop, "value" or `InterpretParams` equation by equation.
        name: stands for the kernel's name in programs and messages.
        compiler_params: options for a platform's compiler, stored only on CPUs.
        cost_estimate: a `CostEstimate`.
        metadata: strings attached to the operation.

    Returns:
        A function of pytrees of arrays.

    Raises:
        ValueError: specs, aliases or outputs that do not fit, a kernel that returns something or captures arrays.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> from xlab.kernels import BlockSpec, kernel_call
        >>> def add_one(x_ref, o_ref):
        ...     o_ref[...] = x_ref[...] + 1
        >>> block = BlockSpec((2,), lambda i: (i,))
        >>> f = kernel_call(add_one, xlab.ShapeDtypeStruct((6,), "int32"), grid=3, in_specs=[block], out_specs=block,
        ...                 interpret=True)
        >>> f(jnp.arange(6)).tolist()
        [1, 2, 3, 4, 5, 6]
    """
    checked(interpret)
    if grid_spec is not None:
        clash = [
            n
            for n, given in (
                ("grid", grid != ()),
                ("in_specs", in_specs is not no_block_spec),
                ("out_specs", out_specs is not no_block_spec),
                ("scratch_shapes", scratch_shapes != ()),
            )
            if given
        ]
        if clash:
            raise ValueError(
                f"kernel_call got grid_spec and {', '.join(clash)}: if grid_spec is given, they are its fields"
            )
        spec = grid_spec
    else:
        spec = GridSpec(grid, in_specs, out_specs, scratch_shapes)
    if isinstance(out_shape, list):
        out_shape = tuple(out_shape)
    out_leaves, out_tree = _tree.flatten(out_shape)
    out_avals = [as_ref_aval(x) for x in out_leaves]
    options = {
        "debug": debug,
        "compiler_params": compiler_params,
        "cost_estimate": cost_estimate,
        "metadata": None if metadata is None else tuple(sorted(metadata.items())),
        "mesh": None,
    }
    aliases = tuple(sorted(dict(input_output_aliases).items()))

    def run(mode, *args):
        leaves, in_tree = _tree.flatten(args)
        in_origins = [f"args{_tree.keystr(p)}" for p, _ in _tree.flatten_with_path(args)[0]]
        out_origins = [
            f"outputs{_tree.keystr(p)}" for p, _ in _tree.flatten_with_path(out_shape)[0]
        ]
        in_avals = [_operand_aval(x) for x in leaves]
        scratch, scratch_tree, by_name = split_scratch(spec.scratch_shapes)
        scratch_avals = [as_ref_aval(x) for x in scratch]
        mapping, dynamic = grid_mapping(
            spec, in_avals, in_tree, in_origins, out_avals, out_tree, out_origins, scratch_avals
        )
        ref_avals = [
            *in_avals[: mapping.num_prefetch],
            *(m.block_aval for m in mapping.block_mappings),
            *scratch_avals,
        ]
        n_in, n_out = len(in_avals), len(out_avals)

        def call(*refs):
            inputs = _tree.unflatten(in_tree, refs[:n_in])
            outs = _tree.unflatten(out_tree, refs[n_in : n_in + n_out])
            extra = _tree.unflatten(scratch_tree, refs[n_in + n_out :])
            outs = outs if isinstance(out_shape, tuple) else (outs,)
            return kernel(*inputs, *outs, **extra) if by_name else kernel(*inputs, *outs, *extra)

        sizes = [n if isinstance(n, int) else None for n in spec.grid]
        closed, captured = trace_kernel(
            kernel, call, ref_avals, sizes, spec.grid_names, [*in_origins, *out_origins], name
        )
        if captured:
            mapping = replace(mapping, num_captured=len(captured))
        outs = kernel_call_p.bind(
            *captured,
            *dynamic,
            *leaves,
            jaxpr=closed,
            grid_mapping=mapping,
            input_output_aliases=aliases,
            interpret=mode,
            out_avals=tuple(a.inner_aval for a in out_avals),
            name=name or getattr(kernel, "__name__", None) or type(kernel).__name__,
            **options,
        )
        return _tree.unflatten(out_tree, outs)

    compiled: dict = {}

    def call(*args):
        mode = resolve(interpret)
        if state.trace is not EVAL or mode not in ("compiled", False):
            return run(mode, *args)
        if mode not in compiled:

            def program(*args):
                return run(mode, *args)

            program.__name__ = name or getattr(kernel, "__name__", "kernel")
            compiled[mode] = jit(program)
        return compiled[mode](*args)

    call.__name__ = call.__qualname__ = name or getattr(kernel, "__name__", "kernel")
    call.__doc__ = kernel.__doc__
    return call


def _operand_aval(x) -> AbstractRef:
    aval = aval_of(x)
    return aval if isinstance(aval, AbstractRef) else AbstractRef(aval.strip_weak_type())
