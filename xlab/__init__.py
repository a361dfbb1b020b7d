"""xlab: see how array programs are traced, transformed, sharded, compiled and run.

Every public name, by the module that defines it. Names are imported when they are first used, so that `import xlab` costs
little more than jaxlib itself.
"""

import sys as _sys
from importlib import import_module as _import_module

from xlab.collector import paused as _paused

with _paused(stays=True):
    from xlab import backend as _backend
    from xlab.config import config as config
    from xlab.core import array as _array
    from xlab.core import tracebacks as _tracebacks

_array.load_members_by(lambda: _import_module("xlab.numpy"))
_tracebacks.install()

_NAMES = {
    "xlab.backend.client": "Device default_backend device_count devices live_arrays local_device_count local_devices "
    "process_count process_index process_indices",
    "xlab.backend.collection_guard": "array_garbage_collection_guard",
    "xlab.backend.deprecated_host_names": "host_count host_id host_ids",
    "xlab.backend.transfer_guards": "transfer_guard transfer_guard_device_to_device transfer_guard_device_to_host "
    "transfer_guard_host_to_device",
    "xlab.compile.effects": "effects_barrier",
    "xlab.compile.jit": "jit",
    "xlab.compile.memory_cache": "clear_caches",
    "xlab.compile.stages": "ShapeDtypeStruct",
    "xlab.config": "allow_f16_reductions auto_pcast strict_divergence enable_checks jax2tf_associative_scan_reductions legacy_prng_key "
    "make_user_context no_tracing remove_size_one_mesh_axis_from_type softmax_custom_jvp thread_guard uninitialized_memory "
    "check_tracer_leaks checking_leaks debug_infs debug_key_reuse debug_nans default_device "
    "default_matmul_precision default_prng_impl disable_jit enable_custom_prng enable_x64 "
    "explain_cache_misses log_compiles no_execution numpy_dtype_promotion numpy_rank_promotion "
    "threefry_partitionable",
    "xlab.core.array": "Array Shard",
    "xlab.core.dtypes": "float0",
    "xlab.core.refs": "Ref",
    "xlab.core.trace": "ensure_compile_time_eval named_scope typeof",
    "xlab.lax.callbacks": "pure_callback",
    "xlab.lax.indexers": "ds",
    "xlab.lax.ref_functions": "empty_ref free_ref freeze new_ref",
    "xlab.lax.reshard": "reshard",
    "xlab.observe.environment": "print_environment_info",
    "xlab.observe.stepping.stepper": "step",
    "xlab.parallel.assemble": "make_array_from_callback make_array_from_process_local_data "
    "make_array_from_single_device_arrays",
    "xlab.parallel.pmap": "pmap",
    "xlab.parallel.smap": "smap",
    "xlab.parallel.put": "copy_to_host_async block_until_ready device_get device_put device_put_sharded",
    "xlab.parallel.replicate": "device_put_replicated replicate",
    "xlab.parallel.shard_map": "shard_map",
    "xlab.sharding": "NamedSharding P get_mesh make_mesh set_mesh",
    "xlab.transforms.checkpoint": "checkpoint remat",
    "xlab.transforms.closure_convert": "closure_convert",
    "xlab.transforms.custom_gradient": "custom_gradient",
    "xlab.transforms.custom_jvp": "custom_jvp",
    "xlab.transforms.custom_vjp": "custom_vjp",
    "xlab.transforms.grad": "grad value_and_grad",
    "xlab.transforms.jacobian": "hessian jacfwd jacobian jacrev",
    "xlab.transforms.jvp": "jvp",
    "xlab.transforms.make_jaxpr": "eval_shape make_jaxpr",
    "xlab.transforms.named_call": "named_call",
    "xlab.transforms.policies": "checkpoint_policies",
    "xlab.transforms.vjp": "fwd_and_bwd linear_transpose linearize vjp",
    "xlab.transforms.vmap": "vmap",
    "xlab.version": "__version__ __version_info__",
}
_ROOMS = ("ad", "ad_checkpoint", "api_util", "core", "custom_batching", "custom_derivatives", "debug", "distributed", "dlpack", "dtypes", "errors", "events", "example_libraries", "experimental", "export", "extend",
          "ffi", "flatten_util", "image", "interpreters", "kernels", "lax", "lib", "memory", "monitoring", "nn", "notebook", "numpy", "observe", "ops", "parallel", "processes", "profiler", "random", "ref", "scipy", "sharding",
          "stages", "test_util", "tree", "tree_util", "typing", "version")  # fmt: skip

_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted({*_HOME, *_ROOMS, "config"})


def __getattr__(name: str):
    if name in _HOME:
        if _HOME[name] != "xlab.config":
            _import_module("xlab.lax")  # the primitives, with their rules
        value = getattr(_import_module(_HOME[name]), name)
    elif name in _ROOMS:
        value = _import_module(f"xlab.{name}")
    else:
        raise AttributeError(_unknown(name))
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})


def _unknown(name: str) -> str:
    import difflib

    if name.startswith("_"):
        return f"module 'xlab' has no attribute {name!r}"
    near = difflib.get_close_matches(name, __all__, 3, 0.55)
    hint = (
        f" Did you mean {' or '.join(f'xlab.{n}' for n in near)}?"
        if near
        else " dir(xlab) lists what there is."
    )
    return f"module 'xlab' has no attribute {name!r}.{hint}"


def load_ipython_extension(shell):
    """`%load_ext xlab`: magics and displays of the notebook layer, imported only here."""
    _import_module("xlab.notebook").load_ipython_extension(shell)


def unload_ipython_extension(shell):
    """`%unload_ext xlab`: takes them back."""
    _import_module("xlab.notebook").unload_ipython_extension(shell)


if (
    "marimo" in _sys.modules
):  # its notebooks load no extension: what has a view shows it from here on
    _import_module("xlab.notebook")
