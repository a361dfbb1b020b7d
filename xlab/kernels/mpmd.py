"""`mpmd_map`: several functions, each on the cores of a mesh of its own, on the same references."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from xlab import tree as _tree
from xlab.compile.jit import jit
from xlab.compile.tracing import function_name, made_of
from xlab.core.refs import Ref, is_ref
from xlab.core.trace import EVAL, state
from xlab.kernels.aliases import checked_aliases
from xlab.kernels.cost import checked_cost
from xlab.kernels.interpret import Interpret, checked, resolve
from xlab.kernels.mesh import check_meshes, mesh_of, super_mesh_shape
from xlab.kernels.mpmd_primitive import mpmd_map_p
from xlab.kernels.mpmd_trace import kernel_refs, trace_pairs
from xlab.kernels.operands import check_captured_once, check_manual, check_passed_once
from xlab.kernels.params import checked_compiler_params, checked_metadata
from xlab.kernels.sharing import NotComparable, base_and_key
from xlab.kernels.trace import call_kernel, split_scratch


class _NotGiven:
    def __repr__(self):
        return "<not given>"


NOT_GIVEN: Any = _NotGiven()


def mpmd_map(
    meshes_and_fns: Sequence[tuple[Any, Callable[..., None]]],
    /,
    out_shapes: Any = NOT_GIVEN,
    *,
    out_types: Any = NOT_GIVEN,
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
    """A function of arrays that runs each function on every core of its mesh.

    All functions get the same references: to the arguments, to the outputs (one argument each if they are a tuple or list, else
    one for the whole pytree), and to scratch. They see whole arrays. What cores do at the same time they order with semaphores.

    Args:
        meshes_and_fns: pairs of a mesh of cores and a function, which writes the outputs and returns None.
        out_shapes, out_types: types of the outputs; two names of one thing. By default there are none.
        scratch_shapes, scratch_types: types of scratch memory; two names of one thing. A dictionary is passed by keyword.
        input_output_aliases: flat argument to flat output: the output starts as that argument.
        compiler_params: options for a platform's compiler, stored only on CPUs.
        interpret: True or "compiled" runs it as a compiled program, "value" or `InterpretParams` equation by equation.
        debug: print the jaxprs of the functions.
        cost_estimate: a `CostEstimate`.
        name: stands for the functions' names in programs and messages.
        metadata: strings attached to the operation.

    Returns:
        A function of pytrees of arrays and references. References may also be closed over.

    Raises:
        TypeError: both spellings of an argument are given, or a pair is not a mesh and a function.
        ValueError: there is no pair, meshes cannot run together, aliases or outputs do not fit, a function returns something or
            captures arrays.
        NotImplementedError: scratch of several meshes that belongs to no core; a reference that is passed twice.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> from xlab.kernels import CoreMesh, mpmd_map
        >>> def double(x_ref, o_ref):
        ...     i = xlab.lax.axis_index("core")
        ...     o_ref[i] = x_ref[i] * 2
        >>> f = mpmd_map([(CoreMesh("core", 4), double)], xlab.ShapeDtypeStruct((4,), "int32"), interpret=True)
        >>> f(jnp.arange(4)).tolist()
        [0, 2, 4, 6]
    """
    checked(interpret)
    call = _Map(
        *_pairs(meshes_and_fns),
        one_of("out_shapes", out_shapes, "out_types", out_types),
        one_of("scratch_shapes", scratch_shapes, "scratch_types", scratch_types),
        tuple(sorted(dict(input_output_aliases).items())),
        {
            "compiler_params": checked_compiler_params(compiler_params),
            "debug": debug,
            "cost_estimate": checked_cost(cost_estimate),
            "metadata": checked_metadata(metadata),
            "name": name,
        },
    )
    programs: dict[Any, Callable[..., Any]] = {}

    def mapped(*args):
        check_passed_once("an mpmd_map", args)
        mode = resolve(interpret)
        if state.trace is not EVAL or mode not in ("compiled", False):
            return call.bind(mode, args)
        if mode not in programs:
            programs[mode] = call.program(mode)
        _given.refs = [x for x in _tree.leaves(args) if type(x) is Ref]
        try:
            return programs[mode](*args)
        finally:
            _given.refs = ()

    mapped.__name__ = mapped.__qualname__ = call.label
    mapped.__doc__ = call.functions[0].__doc__
    return mapped


class _Given(threading.local):
    """The references among the arguments of an eager call; while it is traced, tracers stand for them."""

    refs: Sequence[Ref] = ()


_given = _Given()


class _Map:
    """What `mpmd_map` was given, without arguments yet."""

    def __init__(
        self, meshes: tuple, functions: tuple, outputs, scratch, aliases: tuple, options: dict
    ):
        self.meshes, self.functions, self.aliases = meshes, functions, aliases
        self.options = options
        self.label = options["name"] or function_name(functions[0])
        self.outputs_apart = isinstance(outputs, (tuple, list))  # each its own argument
        found, self.out_tree = _tree.flatten_with_path(outputs)
        self.outputs = [x for _, x in found]
        self.out_paths = [f"outputs{_tree.keystr(path)}" for path, _ in found]
        self.out_refs = kernel_refs("output", self.outputs, self.out_paths, meshes)
        types, self.scratch_tree = split_scratch(scratch)
        self.scratch_refs = kernel_refs(
            "scratch", types, [f"scratch[{i}]" for i in range(len(types))], meshes
        )

    def program(self, mode: Any) -> Callable[..., Any]:
        """The call as a jitted function of the arguments; that of an equal call is the same to the caches."""

        def program(*args):
            return self.bind(mode, args)

        program.__name__ = program.__qualname__ = self.label
        with contextlib.suppress(NotComparable):
            bases, partial = zip(*map(base_and_key, self.functions))
            made_of(
                bases[0],
                "mpmd_map",
                mode,
                bases[1:],
                partial,
                self.meshes,
                (self.outputs_apart, self.out_tree, tuple(self.out_refs)),
                (self.scratch_tree, tuple(self.scratch_refs)),
                self.aliases,
                *self.options.values(),
            )(program)
        return jit(program)

    def bind(self, mode: Any, args: Sequence[Any]) -> Any:
        """Traces the functions for these arguments, and calls them."""
        check_manual(self.outputs, self.out_paths)
        leaves, in_tree = _tree.flatten(args)
        paths = [f"args{_tree.keystr(path)}" for path, _ in _tree.flatten_with_path(args)[0]]
        inputs = kernel_refs("operand", leaves, paths, self.meshes)
        external = external_meshes(self.meshes, (*inputs, *self.out_refs, *self.scratch_refs))
        aliases = checked_aliases(dict(self.aliases), inputs, paths, self.out_refs, self.out_paths)
        n_in, n_out = len(inputs), len(self.out_refs)

        def call(fn, refs):
            outs = _tree.unflatten(self.out_tree, refs[n_in : n_in + n_out])
            return call_kernel(
                fn,
                _tree.unflatten(in_tree, refs[:n_in]),
                outs if self.outputs_apart else (outs,),
                _tree.unflatten(self.scratch_tree, refs[n_in + n_out :]),
            )

        jaxprs, captured = trace_pairs(
            self.meshes,
            self.functions,
            call,
            (inputs, self.out_refs, self.scratch_refs),
            [*paths, *self.out_paths],
            super_mesh_shape([*self.meshes, *external]),
            self.options["name"],
        )
        places = [path for x, path in zip(leaves, paths) if is_ref(x)]
        check_captured_once(captured, [*leaves, *_given.refs], [*paths, *places])
        if self.options["debug"]:
            for mesh, jaxpr in zip(self.meshes, jaxprs):
                print(f"jaxpr for {mesh.core_type}\n{jaxpr}")
        outs = mpmd_map_p.bind(
            *leaves,
            *captured,
            meshes=self.meshes,
            jaxprs=jaxprs,
            external_meshes=external,
            out_avals=tuple(a.inner_aval for a in self.out_refs),
            input_output_aliases=aliases,
            num_captured=len(captured),
            interpret=mode,
            **self.options,
        )
        return _tree.unflatten(self.out_tree, outs)


def one_of(old: str, given_old: Any, new: str, given_new: Any) -> Any:
    """The argument that was given under one of two names; the empty tuple where none was."""
    if given_old is not NOT_GIVEN and given_new is not NOT_GIVEN:
        raise TypeError(f"{old} and {new} are two names of one argument: give one of them")
    found = given_old if given_new is NOT_GIVEN else given_new
    return () if found is NOT_GIVEN else found


def _pairs(meshes_and_fns) -> tuple[tuple, tuple]:
    pairs = []
    if not isinstance(meshes_and_fns, Iterable):
        raise TypeError(
            f"mpmd_map takes a sequence of pairs (mesh, function), got {meshes_and_fns!r} of type "
            f"{type(meshes_and_fns).__name__}"
        )
    for pair in meshes_and_fns:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not callable(pair[1]):
            raise TypeError(
                f"mpmd_map takes a sequence of pairs (mesh, function), got the entry {pair!r}"
            )
        pairs.append(tuple(pair))
    if not pairs:
        raise ValueError(
            "mpmd_map needs at least one mesh/function pair, such as [(CoreMesh('core', 2), kernel)]; got an empty sequence"
        )
    meshes, functions = zip(*pairs)
    check_meshes(meshes)
    return meshes, functions


def external_meshes(meshes: Sequence[Any], refs: Sequence[Any]) -> tuple:
    """The meshes that are named only by memory spaces; they have to fit the others."""
    found: list = []
    for ref in refs:
        mesh = mesh_of(ref.memory_space)
        if mesh is not None and mesh not in meshes and mesh not in found:
            found.append(mesh)
    if found:
        check_meshes([*meshes, *found])
    return tuple(found)
