"""The functions of `xlab.tree` under their longer names, and registration."""

from xlab.tree import (
    DictKey as DictKey,
)
from xlab.tree import (
    FlattenedIndexKey as FlattenedIndexKey,
)
from xlab.tree import (
    GetAttrKey as GetAttrKey,
)
from xlab.tree import (
    KeyPath as KeyPath,
)
from xlab.tree import (
    Partial as Partial,
)
from xlab.tree import (
    PyTreeDef as PyTreeDef,
)
from xlab.tree import (
    SequenceKey as SequenceKey,
)
from xlab.tree import (
    all as tree_all,
)
from xlab.tree import (
    all_leaves as all_leaves,
)
from xlab.tree import (
    broadcast as tree_broadcast,
)
from xlab.tree import (
    flatten as tree_flatten,
)
from xlab.tree import (
    flatten_one_level as flatten_one_level,
)
from xlab.tree import (
    flatten_one_level_with_keys as flatten_one_level_with_keys,
)
from xlab.tree import (
    flatten_with_path as tree_flatten_with_path,
)
from xlab.tree import (
    is_tree_node as is_tree_node,
)
from xlab.tree import (
    keystr as keystr,
)
from xlab.tree import (
    leaves as tree_leaves,
)
from xlab.tree import (
    leaves_with_path as tree_leaves_with_path,
)
from xlab.tree import (
    map as tree_map,
)
from xlab.tree import (
    map_with_path as tree_map_with_path,
)
from xlab.tree import (
    reduce as tree_reduce,
)
from xlab.tree import (
    reduce_associative as tree_reduce_associative,
)
from xlab.tree import (
    register_dataclass as register_dataclass,
)
from xlab.tree import (
    register_pytree_node as register_pytree_node,
)
from xlab.tree import (
    register_pytree_node_class as register_pytree_node_class,
)
from xlab.tree import (
    register_pytree_with_keys as register_pytree_with_keys,
)
from xlab.tree import (
    register_pytree_with_keys_class as register_pytree_with_keys_class,
)
from xlab.tree import (
    register_static as register_static,
)
from xlab.tree import (
    registry as default_registry,
)
from xlab.tree import (
    structure as tree_structure,
)
from xlab.tree import (
    transpose as tree_transpose,
)
from xlab.tree import (
    treedef_children as treedef_children,
)
from xlab.tree import (
    treedef_is_leaf as treedef_is_leaf,
)
from xlab.tree import (
    treedef_tuple as treedef_tuple,
)
from xlab.tree import (
    unflatten as tree_unflatten,
)

KeyEntry = DictKey | SequenceKey | GetAttrKey | FlattenedIndexKey

__all__ = [
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyEntry", "KeyPath", "Partial", "PyTreeDef", "SequenceKey",
    "all_leaves", "default_registry", "flatten_one_level", "flatten_one_level_with_keys", "is_tree_node", "keystr",
    "register_dataclass", "register_pytree_node", "register_pytree_node_class", "register_pytree_with_keys",
    "register_pytree_with_keys_class", "register_static", "tree_all", "tree_broadcast", "tree_flatten",
    "tree_flatten_with_path", "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_with_path", "tree_reduce",
    "tree_reduce_associative", "tree_structure", "tree_transpose", "tree_unflatten", "treedef_children",
    "treedef_is_leaf", "treedef_tuple",
]  # fmt: skip
