"""JAX's names under `experimental`; those that are stable here live in their rooms."""

from importlib import import_module as _import_module

from xlab.core.dtypes import primal_tangent_dtype
from xlab.core.hi_states import cur_qdd
from xlab.core.key_array import EArray
from xlab.lax.callbacks import io_callback

_MODULES = (
    "array_serialization",
    "buffer_callback",
    "checkify",
    "colocated_python",
    "compilation_cache",
    "compute_on",
    "control_deps",
    "custom_partitioning",
    "fused",
    "hijax",
    "key_reuse",
    "jet",
    "layout",
    "mesh_utils",
    "multihost_utils",
    "ode",
    "pallas",
    "pjit",
    "profiler",
    "random",
    "rnn",
    "roofline",
    "scheduling_groups",
    "serialize_executable",
    "shard_alike",
    "shard_map",
    "source_mapper",
    "sparse",
    "topologies",
    "transfer",
    "xla_metadata",
)
__all__ = ["EArray", "cur_qdd", "io_callback", "primal_tangent_dtype", *_MODULES]


def __getattr__(name: str):
    if name not in _MODULES:
        raise AttributeError(f"module 'xlab.experimental' has no attribute {name!r}")
    return _import_module(f"xlab.experimental.{name}")


def __dir__():
    return sorted({*globals(), *__all__})
