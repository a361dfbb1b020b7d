"""Private names of JAX that libraries import, and what stands here for each.

A row: the private module, its name there, where it is here (with `()`, an object of that class), and who asks for it. Nothing else of `jax._src` is answered.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections import defaultdict
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__all__ = [
    "ATTRIBUTES",
    "LOGGERS",
    "TABLE",
    "add_attributes",
    "add_log_filters",
    "has",
    "is_here",
    "is_parent",
    "module",
    "value",
]

# (module, name, "module:name" here, users); `pickles` are those that were made under JAX, and `flax tests` are in its source distribution alone
TABLE: tuple[tuple[str, str, str, str], ...] = (
    ("jax.core", "pytype_aval_mappings", "xlab.jax_alias.shims:ArrayTypes()", "tensorflow_probability"),
    ("jax.experimental.colocated_python.func", "func", "xlab.experimental:colocated_python", "orbax"),
    ("jax.experimental.colocated_python.serialization", "DeviceList", "xlab.backend.client:DeviceList", "orbax"),
    ("jax.extend.ifrt_programs", "ifrt_programs", "xlab.jax_alias.shims:Pathways()", "orbax"),
    ("jax.interpreters.pxla", "global_avals_to_results_handler", "xlab.jax_alias.shims:Pathways()", "orbax"),
    ("jax.interpreters.xla", "canonicalize_dtype_handlers", "xlab.jax_alias.shims:ArrayTypes()", "tensorflow_probability"),
    ("jax._src.ad_util", "stop_gradient_p", "xlab.lax.convert:stop_gradient_p", "lineax"),
    ("jax._src.array", "_reconstruct_array", "xlab.jax_alias.pickles:reconstruct_array", "pickles"),
    ("jax._src.checkify", "Error", "xlab.transforms.checks:Error", "flax"),
    ("jax._src.checkify", "JaxException", "xlab.transforms.checks:JaxException", "flax"),
    ("jax._src.checkify", "Out", "typing:Any", "flax"),
    ("jax._src.checkify", "checkify", "xlab.transforms.checkify:checkify", "flax"),
    ("jax._src.checkify", "user_checks", "xlab.transforms.checks:user_checks", "flax"),
    ("jax._src.compiler", "backend_compile_and_load", "xlab.backend.compiling:_backend_compile", "chex"),
    ("jax._src.core", "MemorySpace", "xlab.jax_alias.pickles:memory_space", "pickles"),
    ("jax._src.core", "ShapedArray", "xlab.core.avals:ShapedArray", "flax"),
    ("jax._src.core", "physical_aval", "xlab.interpreters.mlir.values:physical_aval", "flax"),
    ("jax._src.core", "trace_state_clean", "xlab.jax_alias.shims:trace_state_clean", "numpyro"),
    ("jax._src.dispatch", "wait_for_tokens", "xlab.compile.effects:wait_for_tokens", "equinox"),
    ("jax._src.distributed", "global_state", "xlab.jax_alias.shims:GlobalState()", "orbax"),
    ("jax._src.dtypes", "DType", "typing:Any", "flax"),
    ("jax._src.dtypes", "ExtendedDType", "xlab.core.dtypes:ExtendedDType", "flax"),
    ("jax._src.dtypes", "TypePromotionError", "xlab.core.dtypes:TypePromotionError", "equinox"),
    ("jax._src.dtypes", "extended", "xlab.core.dtypes:extended", "flax"),
    ("jax._src.dtypes", "finfo", "xlab.core.dtypes:finfo", "flax"),
    ("jax._src.dtypes", "supports_inf", "xlab.jax_alias.shims:supports_inf", "flax"),
    ("jax._src.earray", "EArray", "xlab.core.key_array:EArray", "flax"),
    ("jax._src.flatten_util", "ravel_pytree", "xlab.flatten_util:ravel_pytree", "blackjax"),
    ("jax._src.interpreters.pxla", "global_result_handlers", "xlab.jax_alias.shims:ResultHandlers()", "flax"),
    ("jax._src.lax.convolution", "ConvDimensionNumbers", "xlab.lax:ConvDimensionNumbers", "pickles"),
    ("jax._src.lax.fft", "FftType", "xlab.lax:FftType", "pickles"),
    ("jax._src.lax.lax", "DotAlgorithmPreset", "xlab.lax:DotAlgorithmPreset", "pickles"),
    ("jax._src.lax.lax", "Precision", "xlab.lax:Precision", "pickles"),
    ("jax._src.lax.lax", "RandomAlgorithm", "xlab.lax:RandomAlgorithm", "pickles"),
    ("jax._src.lax.slicing", "GatherDimensionNumbers", "xlab.lax:GatherDimensionNumbers", "pickles"),
    ("jax._src.lax.slicing", "GatherScatterMode", "xlab.lax:GatherScatterMode", "pickles"),
    ("jax._src.lax.slicing", "ScatterDimensionNumbers", "xlab.lax:ScatterDimensionNumbers", "pickles"),
    ("jax._src.mesh", "AxisType", "xlab.sharding:AxisType", "pickles"),
    ("jax._src.random.prng", "KeyTy", "xlab.jax_alias.pickles:KeyType", "pickles"),
    ("jax._src.random.prng", "PRNGImpl", "xlab.jax_alias.pickles:KeyImplementation", "pickles"),
    ("jax._src.random.prng", "PRNGKeyArray", "xlab.jax_alias.pickles:Key", "pickles"),
    ("jax._src.random.rbg", "_rbg_fold_in", "xlab.random.rbg:fold_in", "pickles"),
    ("jax._src.random.rbg", "_rbg_random_bits", "xlab.random.rbg:bits", "pickles"),
    ("jax._src.random.rbg", "_rbg_seed", "xlab.random.rbg:seed", "pickles"),
    ("jax._src.random.rbg", "_rbg_split", "xlab.random.rbg:split", "pickles"),
    ("jax._src.random.rbg", "_unsafe_rbg_fold_in", "xlab.random.rbg:_unsafe_fold_in", "pickles"),
    ("jax._src.random.rbg", "_unsafe_rbg_split", "xlab.random.rbg:_unsafe_split", "pickles"),
    ("jax._src.random.threefry2x32", "threefry_fold_in", "xlab.random.threefry:fold_in", "pickles"),
    ("jax._src.random.threefry2x32", "threefry_random_bits", "xlab.random.threefry:bits", "pickles"),
    ("jax._src.random.threefry2x32", "threefry_seed", "xlab.random.threefry:seed", "pickles"),
    ("jax._src.random.threefry2x32", "threefry_split", "xlab.random.threefry:split", "pickles"),
    ("jax._src.state.types", "AbstractRef", "xlab.core.refs:AbstractRef", "flax"),
    ("jax._src.traceback_util", "UnfilteredStackTrace", "xlab.jax_alias.boundaries:UnfilteredStackTrace", "flax tests"),
    ("jax._src.traceback_util", "_exclude_paths", "xlab.jax_alias.shims:ExcludedPaths()", "flax"),
    ("jax._src.traceback_util", "api_boundary", "xlab.jax_alias.boundaries:api_boundary", "flax"),
    ("jax._src.traceback_util", "include_frame", "xlab.jax_alias.shims:include_frame", "equinox"),
    ("jax._src.traceback_util", "register_exclusion", "xlab.jax_alias.shims:register_exclusion", "flax, equinox"),
    ("jax._src.tree_util", "_registry", "xlab.jax_alias.shims:RegisteredTypes()", "flax"),
    ("jax._src.tree_util", "default_registry", "xlab.backend.pytree:registry", "pickles"),
    ("jax._src.tree_util", "flatten_one_level", "xlab.tree:flatten_one_level", "orbax"),
    ("jax._src.tree_util", "prefix_errors", "xlab.tree:prefix_errors", "flax"),
    ("jax._src.xla_bridge", "_backends", "xlab.jax_alias.shims:Backends()", "chex"),
)  # fmt: skip

# Private attributes that libraries read of objects: (class here, name, "module:property" here, users).
ATTRIBUTES = (
    ("xlab.core.avals:AbstractValue", "at_least_vspace", "xlab.jax_alias.shims:tangent_type_of", "distrax, equinox"),
    ("xlab.sharding:Sharding", "_addressable_device_assignment", "xlab.jax_alias.shims:addressable_devices", "orbax"),
)  # fmt: skip

# Loggers of JAX that libraries give filters: (its name, that of ours, users).
LOGGERS = (
    ("jax._src.callback", "xlab.lax.callbacks", "equinox"),
)  # fmt: skip

_SHOWN: dict[str, dict[str, str]] = defaultdict(dict)
for _module, _name, _here, _ in TABLE:
    _SHOWN[_module][_name] = _here
_PARENTS = {"jax._src"} | {m.rpartition(".")[0] for m in _SHOWN}


class LogFilter(logging.Filter):
    """Asks the filters of the logger of that name about a record, in its words."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        words = "jax." + text.removeprefix("xlab.") if text.startswith("xlab.") else text
        seen = logging.makeLogRecord({**vars(record), "name": self.name, "msg": words, "args": ()})
        return bool(logging.getLogger(self.name).filter(seen))


class _StandIn(ModuleType):
    """A private module; what a library puts in the place of a name of the table takes its place here too."""

    def __setattr__(self, name: str, given: Any) -> None:
        super().__setattr__(name, given)
        if has(self.__name__, name) and not (here := _SHOWN[self.__name__][name]).endswith("()"):
            home, _, found = here.partition(":")
            setattr(importlib.import_module(home), found, given)


def module(name: str) -> ModuleType | None:
    """The stand-in for a private module; None for a name that is not in the table, or that is a module here."""
    if name not in _SHOWN and name not in _PARENTS:
        return None
    if not name.startswith("jax._src") and is_here("xlab" + name[len("jax") :]):
        return None
    if name in sys.modules:
        return sys.modules[name]
    made = _StandIn(name, f"Names of {name} that libraries use; see xlab.jax_alias.private.")
    made.__path__ = []  # type: ignore[attr-defined]
    inner = {m.removeprefix(f"{name}.").partition(".")[0] for m in _SHOWN if m.startswith(f"{name}.")}  # fmt: skip
    made.__dir__ = lambda: sorted({*vars(made), *_SHOWN.get(name, {}), *inner})  # type: ignore[method-assign]
    return made


def is_here(name: str) -> bool:
    """Whether the package has a module of this name."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # what it is in is no package
        return False


def is_parent(name: str) -> bool:
    """Whether the table has modules inside of one that may be no package here."""
    return name in _PARENTS


def has(name: str, attribute: str) -> bool:
    """Whether a library's name for something is in the table."""
    return attribute in _SHOWN.get(name, {})


def add_attributes() -> None:
    """Gives our classes the attributes of the table."""
    for cls, name, here, _ in ATTRIBUTES:
        setattr(_at(cls), name, property(_at(here)))


def add_log_filters() -> None:
    """Lets the filters of JAX's loggers decide about what ours would write."""
    for there, here, _ in LOGGERS:
        logging.getLogger(here).addFilter(LogFilter(there))


def _at(here: str) -> Any:
    home, _, found = here.partition(":")
    return getattr(importlib.import_module(home), found)


@cache
def value(name: str, attribute: str) -> Any:
    """What stands here for it."""
    here = _SHOWN[name][attribute]
    value = _at(here.removesuffix("()"))
    return value() if here.endswith("()") else value
