"""The options: one declaration each, with its default, what it accepts and what it does. `config.py` has their values.

Ground floor, standard library only.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple


class Flag(NamedTuple):
    """One declared option. `kind` is bool, int, float, str, object, or a tuple of the allowed values.

    `idle` is the reason why an option of JAX has no effect here: it keeps its default, and another value warns.
    """

    name: str
    default: Any
    kind: Any
    doc: str
    traced: bool = False
    idle: str = ""

    @property
    def env(self) -> str:
        return f"XLAB_{self.name.upper()}"

    def check(self, value: Any) -> Any:
        """Returns `value` in the flag's type, or says what the flag accepts."""
        if self.kind is object or (value is None and self.default is None):
            return value
        if isinstance(self.kind, tuple):
            if value in self.kind:
                return value
        elif self.kind is bool:
            if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
                return bool(value)
        elif self.kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        elif isinstance(value, self.kind) and not isinstance(value, bool):
            return value
        raise ValueError(f"config.{self.name} accepts {self.accepted()}; got {value!r}.")

    def warn_idle(self, value: Any) -> None:
        """Warns that the option has no effect, if the value asks for a change."""
        if value not in (self.default, "cpu"):  # of platforms, the one there is
            warnings.warn(
                f"The option {self.name!r} has no effect in xlab: {self.idle}.", stacklevel=3
            )

    def accepted(self) -> str:
        if isinstance(self.kind, tuple):
            return "one of " + ", ".join(repr(v) for v in self.kind)
        return f"a {self.kind.__name__}" + (" or None" if self.default is None else "")

    def parse(self, text: str) -> Any:
        """The value an environment variable's text stands for."""
        lowered = text.strip().lower()
        if lowered in ("none", "") and self.default is None:
            return None
        if self.kind is bool:
            if lowered in ("1", "true", "yes", "on"):
                return True
            if lowered in ("0", "false", "no", "off", ""):
                return False
        elif isinstance(self.kind, tuple):
            for choice in self.kind:
                if str(choice).lower() == lowered:
                    return choice
        elif self.kind in (int, float):
            try:
                return self.kind(text)
            except ValueError:
                pass
        else:
            return text
        raise ValueError(
            f"Environment variable {self.env} accepts {self.accepted()}; got {text!r}."
        )


_PRECISIONS = (
    None, "default", "high", "highest", "bfloat16", "tensorfloat32", "float32", "fastest", "bfloat16_3x",
)  # fmt: skip

_GUARD_LEVELS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")

FLAGS: dict[str, Flag] = {
    flag.name: flag
    for flag in (
        Flag("enable_x64", False, bool, "Keep 64-bit types instead of narrowing them to 32 bits.", True),
        Flag("disable_jit", False, bool, "Run jitted functions as plain Python.", True),
        Flag("debug_nans", False, bool, "Raise where a NaN appears in a result.", True),
        Flag("debug_infs", False, bool, "Raise where an infinity appears in a result.", True),
        Flag("default_device", None, object, "Device for data that nothing else places.", True),
        Flag("default_matmul_precision", None, _PRECISIONS, "Precision of products that name none.", True),
        Flag("numpy_dtype_promotion", "standard", ("standard", "strict"), "Implicit dtype promotion.", True),
        Flag("numpy_rank_promotion", "allow", ("allow", "warn", "raise"), "Implicit rank promotion.", True),
        Flag("default_prng_impl", "threefry2x32", ("threefry2x32", "rbg", "unsafe_rbg"), "Key type.", True),
        Flag("threefry_partitionable", True, bool, "Random bits counted element by element; off, in halves, as by older programs.", True),
        Flag("enable_custom_prng", False, bool, "Make PRNGKey return typed keys.", True),
        Flag("random_seed_offset", 0, int, "Added to every seed.", True),
        Flag("debug_key_reuse", False, bool, "Check that no key is used twice.", True),
        Flag("check_tracer_leaks", False, bool, "Raise when a tracer outlives its trace.", True),
        Flag("check_jaxpr", False, bool, "Type-check every jaxpr made.", True),
        Flag("enable_checks", False, bool, "Check the runtime's own invariants; every jaxpr made is type-checked.", True),
        Flag("debug_checks", False, bool, "Kernels check what debug_check says; ragged exchanges that sizes and offsets fit together.", True),
        Flag("check_vma", True, bool, "Track over which manual axes a value varies.",
             idle="shard_map(f, check_vma=...) says it for each function"),
        Flag("auto_pcast", True, bool, "Insert pcast where operands vary over different axes.", True),
        Flag("strict_divergence", False, bool, "Raise where a collective may be reached by some of its devices only.", True),
        Flag("remove_size_one_mesh_axis_from_type", False, bool, "Drop mesh axes of size one in types.", True),
        Flag("pmax_subgradient", False, bool, "Differentiate pmax and pmin: by the mean over the values that tie.", True),
        Flag("emulate_send_recv", False, bool, "On CPU, turn psend and the precv of its token into one collective_permute.", True),
        Flag("softmax_custom_jvp", False, bool, "Differentiate softmax by a rule of its own, which keeps only the result.", True),
        Flag("allow_f16_reductions", True, bool, "Let reduce_sum add in 16 bits; False makes it an error.", True),
        Flag("uninitialized_memory", "nan", ("nan", "zero"),
             "What memory of kernels and of empty_ref holds before it is written: NaN and the lowest integers, or zeros.", True),
        Flag("kernels_default_interpret", None, (None, "compiled", "value"), "How kernels run that say nothing about it.", True),
        Flag("jax2tf_associative_scan_reductions", False, bool, "Lower cumulative sums and the like to scans in logarithmic depth.",
             True),
        Flag("legacy_prng_key", "allow", ("allow", "warn", "error"), "What raw keys given to random functions do.", True),
        Flag("use_shardy_partitioner", True, bool, "Partition with Shardy.", idle="there is one partitioner here, Shardy"),
        Flag("use_simplified_jaxpr_constants", False, bool, "Keep scalar constants inside jaxprs.",
             idle="scalar constants are always literals of a program, and arrays its constants"),
        Flag("hoist_constants_as_args", False, bool, "Pass large constants as hidden arguments.",
             idle="large constants are always handed to a program as hidden arguments"),
        Flag("eager_constant_folding", False, bool, "Evaluate what depends on no argument while tracing, instead of recording it.", True),
        Flag("eager_pmap", True, bool, "Under disable_jit, run bodies of pmap operation by operation."),
        Flag("dynamic_shapes", False, bool, "Accept shapes that are not known.", idle="shapes are static"),
        Flag("no_execution", False, bool, "Raise instead of running anything.", True),
        Flag("collective_timeout", 60.0, float,
             "Seconds that devices may wait for others in a collective before the wait ends with an error; 0 for any."),
        Flag("no_tracing", False, bool, "Raise where a jitted function would be traced."),
        Flag("thread_guard", False, bool, "Raise where another thread runs a program on devices of several processes."),
        Flag("explain_cache_misses", False, bool, "Say why a function was traced or compiled again."),
        Flag("log_compiles", False, bool, "Log each stage of each compilation as a warning."),
        Flag("log_checkpoint_residuals", False, bool, "Log what checkpoint keeps."),
        Flag("traceback_filtering", "auto", ("off", "tracebackhide", "remove_frames", "quiet_remove_frames", "auto"),
             "Whether a printed traceback shows the frames of the package: with \"off\" it does; \"remove_frames\" says that it left them out."),
        Flag("compilation_cache_dir", None, str, "Directory of the persistent cache."),
        Flag("enable_compilation_cache", True, bool, "Use the persistent cache when a directory is set."),
        Flag("persistent_cache_min_compile_time_secs", 1.0, float, "Shorter compilations are not stored."),
        Flag("persistent_cache_min_entry_size_bytes", 0, int, "Smaller executables are not stored."),
        Flag("raise_persistent_cache_errors", False, bool, "Raise instead of warning on cache errors."),
        Flag("compilation_cache_max_size", -1, int, "Bytes the persistent cache may hold; -1 for any."),
        Flag("dump_ir_to", "", str, "Directory that receives every lowered module."),
        Flag("dump_ir_modes", "stablehlo", str, "What is dumped, separated by commas: stablehlo, jaxpr."),
        Flag("cross_host_transfer_socket_address", "", str, "Address of the transfer server.",
             idle="arrays move between processes by programs"),
        Flag("cross_host_transport_addresses", "", str, "Addresses used for bulk transport.",
             idle="arrays move between processes by programs"),
        Flag("distributed_debug", False, bool,
             "Log as a warning, of each program that is compiled, its devices, fingerprint, and the shardings of arguments and results."),
        Flag("platforms", None, str, "Platforms to try, in order.", idle="cpu is the only platform here"),
        Flag("platform_name", None, str, "Older name of platforms.",
             idle="it is the older name of platforms, of which cpu is the only one here"),
        Flag("transfer_guard", "allow", _GUARD_LEVELS, "What implicit transfers do, in all directions."),
        Flag("transfer_guard_host_to_device", "allow", _GUARD_LEVELS, "What implicit transfers to devices do."),
        Flag("transfer_guard_device_to_host", "allow", _GUARD_LEVELS, "What implicit transfers from devices do."),
        Flag("transfer_guard_device_to_device", "allow", _GUARD_LEVELS, "What implicit transfers among devices do."),
        Flag("array_garbage_collection_guard", "allow", ("allow", "log", "fatal"), "Arrays in cycles."),
        Flag("spmd_mode", "allow_all", ("allow_all", "allow_jit"),
             "Whether eager operations may run on arrays that span processes, or only functions under jit.", True),
        Flag("pmap_replica_mode", False, bool, "Inside larger programs, run pmap on whole arrays: each device picks its example.", True),
        Flag("pmap_reshard_inputs", False, bool, "Let pmap move committed inputs.", idle="pmap always moves inputs to its devices"),
        Flag("forward_trivial", False, bool,
             "Hand out what a jitted function without operations returns, instead of compiling it: the very arrays it was given."),
        Flag("num_cpu_devices", None, int, "Number of CPU devices; fixed once the first device is used."),
        Flag("compile_records", 64, int, "How many compile records are kept for inspection.",
             idle="xlab.observe.record keeps what its own limit says"),
    )
}  # fmt: skip

# Options of JAX that have no effect here: setting one to another value warns.
WITHOUT_EFFECT = {name: what for what, names in {
    "accelerators that xlab does not run on": "compilation_cache_expect_pgle enable_pgle pgle_aggregation_percentile pgle_profiling_runs "
        "persistent_cache_enable_xla_caches threefry_gpu_kernel_lowering use_magma xla_profile_version",
    "programs compiled by several hosts": "enable_preemption_service enable_recoverability share_binary_between_hosts "
        "share_binary_between_hosts_timeout_ms",
    "the compiler's effort, which Lowered.compile(compiler_options=...) sets": "compiler_enable_remat_pass exec_time_optimization_effort "
        "memory_fitting_effort memory_fitting_level optimization_level",
    "how programs and logs are written down": "captured_constants_report_frames captured_constants_warn_bytes debug_log_modules "
        "hlo_source_file_canonicalization_regex include_full_tracebacks_in_locations logging_level pprint_use_color "
        "send_traceback_to_runtime source_url_schema traceback_in_locations_limit",
    "checks of the persistent cache": "compilation_cache_check_contents compilation_cache_include_metadata_in_key",
    "another way to the same results": "cpu_collectives_implementation use_direct_linearize",
}.items() for name in names.split()}  # fmt: skip
