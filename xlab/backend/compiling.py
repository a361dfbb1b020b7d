"""Compiles program text to a loaded executable, and reads an executable's properties.

Example:
    >>> from xlab.backend import client
    >>> text = "module @m { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> } }"
    >>> exe = compile_text(text, client.devices()[:1])
    >>> "ENTRY" in hlo_text(exe)
    True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxlib import _profiler

from xlab.backend import client as _clients
from xlab.backend import ir as _ir
from xlab.backend.failures import RuntimeFailure
from xlab.backend.native import _hlo, _jax
from xlab.backend.native_warnings import suppressed
from xlab.backend.uninterruptible import run_uninterruptible
from xlab.backend.values import value_class

Executable = _jax.LoadedExecutable
annotation = _profiler.TraceMe
"""A named span in profiles, as a context manager."""
HloSharding = _hlo.HloSharding


@value_class
class MemoryStats:
    """Bytes an executable needs on each device, and in host memory where the compiler counts that apart (for CPUs it is the device's)."""

    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    peak_memory_in_bytes: int
    generated_code_size_in_bytes: int
    host_argument_size_in_bytes: int = 0
    host_output_size_in_bytes: int = 0
    host_alias_size_in_bytes: int = 0
    host_temp_size_in_bytes: int = 0
    host_generated_code_size_in_bytes: int = 0


MOST_TPU_PARAMETERS = 2000


def should_tuple_args(count: int, platform: str) -> bool:
    """Whether a program of so many arguments takes them as one tuple: on TPUs, where more parameters than `MOST_TPU_PARAMETERS` do not fit.

    >>> should_tuple_args(2000, "tpu"), should_tuple_args(2001, "tpu"), should_tuple_args(99999, "cpu")
    (False, True, False)
    """
    return platform == "tpu" and count > MOST_TPU_PARAMETERS


def compile_options(devices: Sequence[Any], partitions: int = 1, *, propagate_inputs: Sequence[bool] = (),
                    propagate_outputs: Sequence[bool] = (), options: Mapping[str, Any] | None = None,
                    partitioned: bool = False, arguments: int = 0) -> Any:  # fmt: skip
    """Options for one program over `partitions` devices, or replicated when there are more devices; `partitioned` takes the same
    pipeline for one device. `arguments` is how many the program has."""
    count = len(devices)
    replicas, rest = divmod(count, partitions)
    if rest or replicas < 1 or (replicas > 1 and partitions > 1):
        raise ValueError(
            f"A program of {partitions} partitions cannot run on {count} devices: give as many devices as "
            "partitions, or one partition to run a copy on each device."
        )
    ids = np.array([d.id for d in devices], np.int32).reshape(replicas, partitions)
    made = _jax.CompileOptions()
    made.parameter_is_tupled_arguments = should_tuple_args(arguments, devices[0].platform)
    build = made.executable_build_options
    assignment = _jax.DeviceAssignment.create(ids)
    made.num_replicas = build.num_replicas = replicas
    made.num_partitions = build.num_partitions = partitions
    made.device_assignment = build.device_assignment = assignment
    if partitioned or partitions > 1:
        build.use_spmd_partitioning = build.use_shardy_partitioner = True
    if partitions > 1:
        if len(propagate_inputs):
            build.allow_spmd_sharding_propagation_to_parameters = list(propagate_inputs)
        if len(propagate_outputs):
            build.allow_spmd_sharding_propagation_to_output = list(propagate_outputs)
    options = dict(options or {})
    # Not an option of the compiler by name, but a field of its own.
    profile = options.pop("fdo_profile", None)
    if profile is not None:
        if not isinstance(profile, bytes):
            raise TypeError(
                f"the compiler option fdo_profile takes the bytes of a profile, got a {type(profile).__name__}"
            )
        build.fdo_profile = profile
    for name, value in options.items():
        if not isinstance(value, (str, bool, int, float)):
            raise TypeError(
                f"the compiler option {name} takes a string, a bool, an int or a float, got {value!r} of type {type(value).__name__}"
            )
    if options:
        made.env_option_overrides = list(options.items())
    return made


def compile_text(text: str | bytes | Any, devices: Sequence[Any], *, partitions: int = 1,
                 allow_propagation_to_outputs: Sequence[bool] = (), allow_propagation_to_inputs: Sequence[bool] = (),
                 options: Mapping[str, Any] | None = None, host_callbacks: Sequence[Callable] = (),
                 arguments: int = 0) -> Executable:  # fmt: skip
    """Compiles a StableHLO module for `devices` and loads it.

    Args:
        text: the module as text or bytecode.
        devices: where it runs, in the order of the program's device assignment.
        partitions: devices that share one program; the compiler partitions it by its shardings.
        allow_propagation_to_outputs: per output, whether the compiler chooses the sharding.
        options: `xla_*` flags for this compilation alone.
        host_callbacks: Python functions that the module's callback calls refer to by number.
        arguments: how many arguments the program has.
    """
    # Collectives of one device: the pipeline without partitions combines all-reduces of unequal ranks and then refuses them.
    channels = ("channel_handle" in text if isinstance(text, str) else
                isinstance(text, bytes) and b"channel_handle" in text)  # fmt: skip
    made = compile_options(devices, partitions, propagate_inputs=allow_propagation_to_inputs,
                           propagate_outputs=allow_propagation_to_outputs, options=options, partitioned=channels, arguments=arguments)  # fmt: skip
    where = _jax.DeviceList(tuple(devices))
    backend = _clients.client()
    if devices and devices[0].client is not backend:  # virtual devices: compiled for, never run on
        backend = devices[0].client
    if host_callbacks and isinstance(text, (str, bytes)):
        # Only a parsed module may be given together with callbacks.
        text = _ir.parse(text, alone=True)
    return _backend_compile(backend, text, where, made, list(host_callbacks))


ErrorHandler = Callable[[RuntimeFailure], Exception | None]
_error_handlers: list[ErrorHandler] = []


def register_compile_error_handler(handler: ErrorHandler) -> Callable[[], None]:
    """Gives errors of the compiler a better form: the first handler that returns an exception decides what is raised.

    Args:
        handler: called with the error; returns the exception to raise in its place, with the error as its cause, or None.

    Returns:
        A function that takes the handler back.

    Example:
        >>> unregister = register_compile_error_handler(
        ...     lambda error: MemoryError("too large") if "RESOURCE_EXHAUSTED" in str(error) else None
        ... )
        >>> unregister()
    """
    _error_handlers.append(handler)
    return lambda: _error_handlers.remove(handler)


def _backend_compile(
    backend: Any, module: Any, devices: Any, options: Any, host_callbacks: list[Callable]
) -> Executable:
    """Nothing but the compile, under a name of its own: profilers show it."""
    try:
        with suppressed(), annotation("backend_compile"):
            return run_uninterruptible(
                backend.compile_and_load,
                module,
                devices,
                options,
                *([host_callbacks] if host_callbacks else ()),
            )
    except RuntimeFailure as error:
        for handler in tuple(_error_handlers):
            better = handler(error)
            if better is not None:
                raise better from error
        raise


_COLLECTIVES = (b"all-reduce", b"all-gather", b"reduce-scatter", b"all-to-all", b"collective-permute",
                b"collective-broadcast")  # fmt: skip


def communicates(exe: Executable) -> bool:
    """Whether the program has collectives, by their names in the text; a false positive only costs speed."""
    for module in exe.hlo_modules():
        data = module.as_serialized_hlo_module_proto()
        if any(word in data for word in _COLLECTIVES):
            return True
    return False


def hlo_text(exe: Executable) -> str:
    """The optimized program."""
    return "\n\n".join(module.to_string() for module in exe.hlo_modules())


def stablehlo_to_hlo(text: str) -> Any:
    """A StableHLO module as an `XlaComputation`, with `as_hlo_text`."""
    return _jax.mlir.mlir_module_to_xla_computation(text, False, False)


def stablehlo_to_hlo_text(text: str, tuple_args: bool = False) -> str:
    """The program as HLO before any optimization; its arguments are one tuple where asked for."""
    made = _jax.mlir.mlir_module_to_xla_computation(text, tuple_args, False)
    return made.get_hlo_module().to_string()


def hlo_modules(exe: Executable) -> list[Any]:
    """The optimized modules; one on every platform here."""
    return exe.hlo_modules()


def hlo_dot(exe: Executable) -> str:
    """The optimized program as a graph in Graphviz's language."""
    return _hlo.hlo_module_to_dot_graph(exe.hlo_modules()[0])


def cost_analysis(exe: Executable) -> dict[str, float]:
    """The compiler's estimate: flops, transcendentals, bytes accessed."""
    found = exe.cost_analysis()
    return dict(found[0] if isinstance(found, (list, tuple)) else found or {})


def unoptimized_cost(text: str) -> dict[str, float]:
    """The compiler's estimate for a StableHLO module as it is, before any optimization."""
    return dict(
        _jax.hlo_module_cost_analysis(_clients.client(), stablehlo_to_hlo(text).get_hlo_module())
    )


def memory_stats(exe: Executable) -> MemoryStats:
    """Bytes needed on each device."""
    return memory_plan(exe)[0]


def memory_plan(exe: Executable) -> tuple[MemoryStats, bytes]:
    """Bytes needed on each device, and the serialized buffer assignment: which value lives where in memory, and when."""
    raw = exe.get_compiled_memory_stats()
    stats = MemoryStats(**{name: getattr(raw, name) for name in MemoryStats.__match_args__})
    return stats, bytes(raw.serialized_buffer_assignment_proto)


def output_shardings(exe: Executable) -> list[Any] | None:
    """The outputs' tilings, or None for a program of one partition."""
    return _hlo_shardings(exe.get_output_shardings())


def parameter_shardings(exe: Executable) -> list[Any] | None:
    """The parameters' tilings, or None for a program of one partition."""
    return _hlo_shardings(exe.get_parameter_shardings())


def _hlo_shardings(found: Any) -> list[Any] | None:
    if found is None:
        return None
    return [HloSharding.from_proto(one) for one in found]


def output_layouts(exe: Executable) -> list[Any]:
    """The outputs' memory layouts."""
    return list(exe.get_output_layouts())


def output_memory_kinds(exe: Executable) -> list[str]:
    """The kind of memory each output is in."""
    kinds = exe.get_output_memory_kinds()
    return list(kinds[0]) if kinds and isinstance(kinds[0], (list, tuple)) else list(kinds)


def fingerprint(exe: Executable) -> bytes | None:
    """Equal for equal programs."""
    return exe.fingerprint


def serialize(exe: Executable) -> bytes:
    """The executable as bytes for `deserialize`."""
    return exe.serialize()


def deserialize(data: bytes, devices: Sequence[Any], options: Any = None) -> Executable:
    """Loads bytes from `serialize`. They are machine code: load only from sources that you trust."""
    return _clients.client().deserialize_executable(data, _jax.DeviceList(tuple(devices)), options)
