"""The functions of `xlab.tree` under their longer names, and registration."""

from xlab import tree as _tree
from xlab.core.alias import alias as _alias
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
    all_leaves as all_leaves,
)
from xlab.tree import (
    flatten_one_level as flatten_one_level,
)
from xlab.tree import (
    flatten_one_level_with_keys as flatten_one_level_with_keys,
)
from xlab.tree import (
    is_tree_node as is_tree_node,
)
from xlab.tree import (
    keystr as keystr,
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
    treedef_children as treedef_children,
)
from xlab.tree import (
    treedef_is_leaf as treedef_is_leaf,
)
from xlab.tree import (
    treedef_tuple as treedef_tuple,
)

tree_all = _alias(_tree.all, "tree_all", "xlab.tree_util")
tree_broadcast = _alias(_tree.broadcast, "tree_broadcast", "xlab.tree_util")
tree_flatten = _alias(_tree.flatten, "tree_flatten", "xlab.tree_util")
tree_flatten_with_path = _alias(_tree.flatten_with_path, "tree_flatten_with_path", "xlab.tree_util")
tree_leaves = _alias(_tree.leaves, "tree_leaves", "xlab.tree_util")
tree_leaves_with_path = _alias(_tree.leaves_with_path, "tree_leaves_with_path", "xlab.tree_util")
tree_map = _alias(_tree.map, "tree_map", "xlab.tree_util")
tree_map_with_path = _alias(_tree.map_with_path, "tree_map_with_path", "xlab.tree_util")
tree_reduce = _alias(_tree.reduce, "tree_reduce", "xlab.tree_util")
tree_reduce_associative = _alias(
    _tree.reduce_associative, "tree_reduce_associative", "xlab.tree_util"
)
tree_structure = _alias(_tree.structure, "tree_structure", "xlab.tree_util")
tree_transpose = _alias(_tree.transpose, "tree_transpose", "xlab.tree_util")
tree_unflatten = _alias(_tree.unflatten, "tree_unflatten", "xlab.tree_util")

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
