"""The native pytree registries of this package, separate from JAX's.

Containers are registered with all of them. What users see are `registry`, and `none_leaf_registry`, where None is a
leaf. `dispatch_registry` is what native calls take arguments and results apart with: arrays that consist of others,
such as keys, are containers there.
"""

from __future__ import annotations

import copyreg
import pickle
import re
import sys
from typing import Any

from xlab.backend.native import _jax, neighbor_present

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
_picklable(dispatch_registry, "dispatch_registry")  # copies of compiled functions hold it


def opened_treedef(name: str, nodes: list) -> PyTreeDef:
    """The treedef that a pickle holds.

    Beside JAX, libraries register their classes with JAX: a treedef that holds one of these is JAX's there.

    Raises:
        pickle.UnpicklingError: it holds a class that is registered nowhere in this process.
    """
    given = [getattr(sys.modules[__name__], name)]
    if neighbor_present() and name == "registry":
        given.append(sys.modules["jax"].tree_util.default_registry)
    for one in given:
        made = PyTreeDef.__new__(PyTreeDef)
        try:
            made.__setstate__((one, nodes))
        except _jax.JaxRuntimeError as error:
            failed = error
        else:
            return made
    found = re.search(r"<class '([^']*)'>", str(failed))
    if found is None:
        raise failed
    raise pickle.UnpicklingError(
        f"this pickle holds the structure of a {found[1]}, which is no container in this process: import what registers it with "
        "register_pytree_node first. Where that is a library written for JAX and JAX is not in this process, start with `import xlab.as_jax`, as "
        "where the pickle was made; or build the structure anew, with jax.tree.structure(tree)."
    )


def _reduced(treedef: PyTreeDef) -> Any:
    of, nodes = treedef.__getstate__()
    if of is registry or of is none_leaf_registry:
        return opened_treedef, (of.__name__, nodes)
    return treedef.__reduce_ex__(4)  # JAX's


copyreg.pickle(PyTreeDef, _reduced)


def treedef_tuple(treedefs: Any) -> PyTreeDef:
    """The treedef of a tuple whose elements have the given treedefs."""
    return _jax.pytree.treedef_tuple(registry, treedefs)


def parse_arguments(positional: Any, keyword_values: Any, keyword_names: Any, static_argnums: Any,
                    static_argnames: Any) -> tuple[Any, list[Any]]:  # fmt: skip
    """A hashable signature of a call and its flat dynamic arguments."""
    return _jax.jax_jit.parse_arguments(
        positional, keyword_values, keyword_names, static_argnums, static_argnames, registry
    )
