"""`kernel_call`: runs a kernel over a grid of blocks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xlab import tree as _tree
from xlab.compile.jit import jit
from xlab.compile.tracing import function_name, made_of
from xlab.core import effects as _effects
from xlab.core import source_info as _source_info
from xlab.core.jaxpr import eval_jaxpr
from xlab.core.refs import AbstractRef, is_ref
from xlab.core.trace import EVAL, state
from xlab.interpreters.discharge import discharge_jaxpr
from xlab.kernels.aliases import checked_aliases
from xlab.kernels.blocks import Element, no_block_spec
from xlab.kernels.call_primitive import kernel_call_p
from xlab.kernels.cost import CostEstimate, checked_cost
from xlab.kernels.failures import warn
from xlab.kernels.grid import GridMapping, GridSpec, grid_mapping
from xlab.kernels.interpret import Interpret, checked, resolve
from xlab.kernels.memory import as_ref_aval
from xlab.kernels.operands import (
    check_captured_once,
    check_manual,
    check_passed_once,
    in_kernel,
    operand_ref,
    output_ref,
)
from xlab.kernels.params import checked_compiler_params, checked_metadata
from xlab.kernels.sharing import NotComparable, base_and_key, spec_key
from xlab.kernels.trace import call_kernel, split_scratch, trace_kernel
from xlab.kernels.value_path import is_value


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
    alias_mode: str = "copy",
    debug: bool = False,
    interpret: Interpret = False,
    name: str | None = None,
    compiler_params: Any = None,
    cost_estimate: CostEstimate | None = None,
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
        alias_mode: "copy": later steps still read the argument as it was given. "shared": they read what was written to the
            output, as where both are one buffer.
        debug: print the kernel's jaxpr, its grid, and the jaxpr on values.
        interpret: True or "compiled" runs it as one compiled loop, "value" or `InterpretParams` equation by equation.
        name: stands for the kernel's name in programs and messages.
        compiler_params: options for a platform's compiler, stored only on CPUs.
        cost_estimate: a `CostEstimate`.
        metadata: strings attached to the operation.

    Returns:
        A function of pytrees of arrays. Arguments may also be references to arrays: what the kernel writes to their blocks stays.

    Raises:
        TypeError: the kernel is no function, `name` no string, or `grid_spec` no grid spec.
        ValueError: specs, aliases or outputs that do not fit, a kernel that returns something or captures arrays.
        NotImplementedError: a reference passed twice, or padding by `Element` of an argument that is aliased.

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
    if not callable(kernel):
        raise TypeError(
            f"kernel_call takes a kernel first, a function of references, got {kernel!r} of type {type(kernel).__name__}"
        )
    if not (name is None or isinstance(name, str)):
        raise TypeError(
            f"the name of a kernel is a string, got {name!r} of type {type(name).__name__}"
        )
    if not (grid_spec is None or isinstance(grid_spec, GridSpec)):
        raise TypeError(
            f"grid_spec is a GridSpec or a PrefetchGridSpec, got {grid_spec!r} of type {type(grid_spec).__name__}. Sizes alone "
            f"are given as grid=..."
        )
    if alias_mode not in ("copy", "shared"):
        raise ValueError(f'alias_mode is "copy" or "shared", got {alias_mode!r}')
    given = (
        ("grid", not _is_empty(grid)),
        ("in_specs", in_specs is not no_block_spec),
        ("out_specs", out_specs is not no_block_spec),
        ("scratch_shapes", not _is_empty(scratch_shapes)),
    )
    clash = [n for n, is_given in given if is_given]
    if grid_spec is not None and clash:
        raise ValueError(
            f"kernel_call got grid_spec and {', '.join(clash)}: if grid_spec is given, they are its fields"
        )
    call = _Call(
        kernel,
        out_shape,
        GridSpec(grid, in_specs, out_specs, scratch_shapes) if grid_spec is None else grid_spec,
        input_output_aliases,
        name or function_name(kernel),
        {
            "alias_mode": alias_mode,
            "debug": debug,
            "compiler_params": checked_compiler_params(compiler_params),
            "cost_estimate": checked_cost(cost_estimate),
            "metadata": checked_metadata(metadata),
            "mesh": None,
        },
    )
    programs: dict = {}

    def run(*args):
        mode = resolve(interpret)
        check_passed_once("a kernel call", args)
        program = programs.get(mode)
        if program is None:
            program = programs[mode] = call.program(mode)
        refs = [x for x in _tree.leaves(args) if is_ref(x)]
        if not refs and (mode == "compiled" or not mode):
            return program(call.dynamic, *args)
        call.refs = refs
        try:
            if state.trace is EVAL and is_value(mode):
                return _at_once(program, call.dynamic, *args)
            return program(call.dynamic, *args)
        finally:
            call.refs = []

    run.__name__ = run.__qualname__ = call.name
    run.__doc__ = kernel.__doc__
    return run


def _at_once(program, *args):
    """Runs the equations of a traced call, without compiling it."""
    traced = program.trace(*args)
    closed = traced.jaxpr
    outs = eval_jaxpr(closed.jaxpr, closed.consts, *_tree.leaves(args))
    return _tree.unflatten(traced.out_tree, outs)


def _is_empty(x: Any) -> bool:
    return isinstance(x, (tuple, list, Mapping)) and not x


class _Call:
    """What `kernel_call` was given, without arguments yet."""

    def __init__(self, kernel, out_shape, spec: GridSpec, aliases, name: str, options: dict):
        self.kernel, self.spec, self.name, self.options = kernel, spec, name, options
        self.out_shape = tuple(out_shape) if isinstance(out_shape, list) else out_shape
        leaves, self.out_tree = _tree.flatten_with_path(self.out_shape)
        self.out_origins = [f"outputs{_tree.keystr(path)}" for path, _ in leaves]
        self.out_avals = [output_ref(x, origin) for (_, x), origin in zip(leaves, self.out_origins)]
        self.aliases = dict(aliases)
        self.refs: list = []  # among the arguments of the call that is being made
        scratch, self.scratch_tree = split_scratch(spec.scratch_shapes)
        self.scratch_avals = [as_ref_aval(x) for x in scratch]
        self.dynamic = tuple(n for n in spec.grid if not isinstance(n, int))
        self.sizes = [n if isinstance(n, int) else None for n in spec.grid]

    def program(self, mode) -> Callable[..., Any]:
        """The call as a jitted function of `(dynamic sizes, *arguments)`."""

        def program(dynamic, *args):
            return self.bind(mode, dynamic, args)

        program.__name__ = program.__qualname__ = self.name
        try:
            base, given = base_and_key(self.kernel)
            made_of(base, "kernel_call", mode, given, *self.key())(program)
        except NotComparable:
            pass
        return jit(program, inline=True)

    def key(self) -> tuple[Hashable, ...]:
        """Stands for everything but the kernel."""
        spec = self.spec
        return (
            type(spec),
            spec.num_scalar_prefetch,
            tuple(self.sizes),
            spec.grid_names,
            spec_key(spec.in_specs),
            spec_key(spec.out_specs),
            self.out_tree,
            tuple(self.out_avals),
            self.scratch_tree,
            tuple(self.scratch_avals),
            tuple(self.aliases.items()),
            self.name,
            *self.options.values(),
        )

    def bind(self, mode, dynamic: Sequence[Any], args: Sequence[Any]) -> Any:
        """Traces the kernel for these arguments, and calls it."""
        check_manual(_tree.leaves(self.out_shape), self.out_origins)
        leaves, in_tree = _tree.flatten(args)
        in_origins = [f"args{_tree.keystr(path)}" for path, _ in _tree.flatten_with_path(args)[0]]
        in_avals = [operand_ref(x, origin) for x, origin in zip(leaves, in_origins)]
        mapping = grid_mapping(
            self.spec,
            in_avals,
            in_tree,
            in_origins,
            self.out_avals,
            self.out_tree,
            self.out_origins,
            self.scratch_avals,
        )
        aliases = checked_aliases(
            self.aliases, in_avals, in_origins, self.out_avals, self.out_origins
        )
        _check_aliased_padding(mapping, aliases)
        n_in, n_out = len(in_avals), len(self.out_avals)

        def call(*refs):
            inputs = _tree.unflatten(in_tree, refs[:n_in])
            outs = _tree.unflatten(self.out_tree, refs[n_in : n_in + n_out])
            outs = outs if isinstance(self.out_shape, tuple) else (outs,)
            scratch = _tree.unflatten(self.scratch_tree, refs[n_in + n_out :])
            return call_kernel(self.kernel, inputs, outs, scratch)

        prefetched = [in_kernel(a) for a in in_avals[: mapping.num_prefetch]]
        refs = [*prefetched, *(m.block_aval for m in mapping.block_mappings), *self.scratch_avals]
        names = [*in_origins, *self.out_origins, *_tree_names("scratch", self.scratch_tree)]
        closed, captured = trace_kernel(
            self.kernel, call, refs, self.sizes, self.spec.grid_names, names, self.name
        )
        places = [origin for x, origin in zip(leaves, in_origins) if is_ref(x)]
        check_captured_once(captured, [*leaves, *self.refs], [*in_origins, *places])
        if mode == "compiled":  # the value interpreter says so itself
            _warn_of_written_inputs(self.kernel, closed, len(captured), leaves, in_origins)
        mapping = replace(mapping, num_captured=len(captured))
        if self.options["debug"]:
            _print(self.kernel, closed, mapping)
        outs = kernel_call_p.bind(
            *captured,
            *dynamic,
            *leaves,
            jaxpr=closed,
            grid_mapping=mapping,
            input_output_aliases=aliases,
            interpret=mode,
            out_avals=tuple(a.inner_aval for a in self.out_avals),
            name=self.name,
            **self.options,
        )
        return _tree.unflatten(self.out_tree, outs)


def _tree_names(what, tree) -> list[str]:
    leaves = _tree.flatten_with_path(_tree.unflatten(tree, [0] * tree.num_leaves))[0]
    return [f"{what}{_tree.keystr(path)}" for path, _ in leaves]


def _check_aliased_padding(mapping: GridMapping, aliases) -> None:
    ins = [None] * mapping.num_prefetch + list(mapping.input_mappings)
    for i, o in aliases:
        for m in (ins[i], mapping.output_mappings[o]):
            if m is not None and any(type(d) is Element and any(d.padding) for d in m.block_shape):
                raise NotImplementedError(
                    f"{m.origin} is part of the alias {{{i}: {o}}} and its block shape {m.block_shape} pads by Element: padding of "
                    f"aliased operands is not implemented"
                )


def _warn_of_written_inputs(kernel, closed, num_captured, leaves, origins) -> None:
    for i in sorted(_effects.written(closed.effects)):
        i -= num_captured
        if 0 <= i < len(leaves) and not is_ref(leaves[i]):
            warn(
                f"the kernel function {_source_info.describe_function(kernel)} writes to its input {origins[i]}. Later steps see it, "
                f"the caller's array does not change: write to an output, aliased with the input by input_output_aliases if it "
                f"should start as the input"
            )


def _print(kernel, closed, mapping: GridMapping) -> None:
    discharged, _ = discharge_jaxpr(closed, [type(a) is AbstractRef for a in closed.in_avals])
    print(f"The kernel jaxpr of {_source_info.describe_function(kernel)}:\n{closed}")
    print(f"The grid mapping:\n{mapping.describe()}")
    print(f"The discharged jaxpr:\n{discharged}")
