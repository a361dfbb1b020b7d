"""Trees of containers: what every function that takes "an array or nested containers of arrays" uses.

Reading order: `flattening` (leaves, structure, map, paths), `failing` (what it says where it fails), `prefix` (trees that stop early), `registration` (new
containers), `partial`. May import `backend` and the ground floor. Promises that structures are hashable, comparable and
picklable, and that registering a class here changes nothing for JAX, which has a registry of its own.

Example:
    >>> from xlab import tree
    >>> tree.map(lambda x: x + 1, {"a": 1, "b": (2, 3)})
    {'a': 2, 'b': (3, 4)}
"""

from xlab.backend.pytree import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    PyTreeDef,
    SequenceKey,
    registry,
)
from xlab.tree.flattening import (
    KeyPath,
    all,
    all_leaves,
    flatten,
    flatten_one_level,
    flatten_one_level_with_keys,
    flatten_with_path,
    is_tree_node,
    keystr,
    leaf_paths,
    leaves,
    leaves_with_path,
    map,
    map_with_path,
    reduce,
    reduce_associative,
    structure,
    transpose,
    treedef_children,
    treedef_is_leaf,
    treedef_tuple,
    unflatten,
)
from xlab.tree.partial import Partial
from xlab.tree.prefix import broadcast, broadcast_prefix, flatten_prefix, prefix_errors
from xlab.tree.registration import (
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
    static,
)

__all__ = [
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyPath", "Partial", "PyTreeDef", "SequenceKey", "all", "all_leaves",
    "broadcast", "broadcast_prefix", "flatten", "flatten_one_level", "flatten_one_level_with_keys", "flatten_prefix",
    "flatten_with_path", "is_tree_node", "keystr", "leaf_paths", "leaves", "leaves_with_path", "map", "map_with_path",
    "prefix_errors", "reduce", "reduce_associative", "register_dataclass", "register_pytree_node",
    "register_pytree_node_class", "register_pytree_with_keys", "register_pytree_with_keys_class", "register_static",
    "registry", "static", "structure", "transpose", "treedef_children", "treedef_is_leaf", "treedef_tuple", "unflatten",
]  # fmt: skip
