"""The native pytree registries of this package, separate from JAX's.

Containers are registered with all of them. What users see are `registry`, and `none_leaf_registry`, where None is a
leaf. `dispatch_registry` is what native calls take arguments and results apart with: arrays that consist of others,
such as keys, are containers there.
"""

from __future__ import annotations

import sys
from typing import Any

from xlab.backend.native import _jax

PyTreeDef = _jax.pytree.PyTreeDef
PyTreeRegistry = _jax.pytree.PyTreeRegistry
DictKey = _jax.pytree.DictKey
SequenceKey = _jax.pytree.SequenceKey
GetAttrKey = _jax.pytree.GetAttrKey
FlattenedIndexKey = _jax.pytree.FlattenedIndexKey

registry = PyTreeRegistry()
none_leaf_registry = PyTreeRegistry(enable_none=False)
dispatch_registry = PyTreeRegistry()
ALL = (registry, none_leaf_registry, dispatch_registry)


def _picklable(value: Any, name: str) -> None:
    # Treedefs pickle their registry by reference, through these two attributes.
    value.__name__ = value.__qualname__ = name
    value.__module__ = __name__
    setattr(sys.modules[__name__], name, value)


_picklable(registry, "registry")
_picklable(none_leaf_registry, "none_leaf_registry")


def treedef_tuple(treedefs: Any) -> PyTreeDef:
    """The treedef of a tuple whose elements have the given treedefs."""
    return _jax.pytree.treedef_tuple(registry, treedefs)


def parse_arguments(positional: Any, keyword_values: Any, keyword_names: Any, static_argnums: Any,
                    static_argnames: Any) -> tuple[Any, list[Any]]:  # fmt: skip
    """A hashable signature of a call and its flat dynamic arguments."""
    return _jax.jax_jit.parse_arguments(
        positional, keyword_values, keyword_names, static_argnums, static_argnames, registry
    )
