"""Turns a cell into one function, from the arrays it reads to the names it assigns.

The cell runs in the user's own namespace while it is traced, with traced values under the names of its inputs; then the
namespace is put back. So functions defined in the cell, or called by it, see what they would see in an ordinary cell, and
an exception leaves nothing behind. What the cell changed is returned by the function and written by `Cell.commit`.

Example:
    >>> import xlab.numpy as jnp
    >>> space = {"x": jnp.ones(3), "k": 2}
    >>> cell = Cell("y = k * x\\ny.sum()", space)
    >>> cell.reads
    ('x',)
    >>> outcome = cell.function()(*cell.arguments())
    >>> float(cell.commit(outcome)), space["y"].shape
    (6.0, (3,))
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

import numpy as np

import xlab
from xlab import tree
from xlab.backend import caches
from xlab.notebook.free_variables import reads_of
from xlab.notebook.hidden import Kept, flatten, without_hidden
from xlab.observe.beside.recognize import is_theirs, is_traced
from xlab.observe.programs.values_read import token
from xlab.tree_util import register_pytree_with_keys

_MISSING = object()
_LAST = "the last expression"


def is_array(value: Any) -> bool:
    """Whether a value becomes an input of a compiled cell: an array of numbers or keys, of xlab, NumPy, or JAX beside us.

    >>> is_array(np.ones(2)), is_array(1.0), is_array(np.array(["a"]))
    (True, False, False)
    """
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biufcV" and value.dtype.names is None
    return isinstance(value, xlab.Array) or is_theirs(value) or is_traced(value)


class PartitionedTree:
    """A flattened value: its arrays, and the structure to rebuild it around other arrays."""

    __slots__ = ("arrays", "mask", "rest", "structure")

    def __init__(self, value: Any):
        leaves, self.structure = flatten(value)
        self.mask = tuple(map(is_array, leaves))
        self.arrays = [leaf for leaf, array in zip(leaves, self.mask, strict=True) if array]
        self.rest = [leaf for leaf, array in zip(leaves, self.mask, strict=True) if not array]

    def join(self, arrays: Any) -> Any:
        """The value with other arrays in the places of its own."""
        arrays, rest = iter(arrays), iter(self.rest)
        return tree.unflatten(
            self.structure, [next(arrays if array else rest) for array in self.mask]
        )

    def argument(self) -> Any:
        """The value as an argument of a jitted function: what is no array is left out."""
        leaves = iter(self.arrays)
        return tree.unflatten(
            self.structure, [next(leaves) if array else None for array in self.mask]
        )

    def emptied(self) -> PartitionedTree:
        """The same without the arrays, so that keeping it keeps none alive."""
        made = PartitionedTree.__new__(PartitionedTree)
        made.structure, made.mask, made.rest, made.arrays = self.structure, self.mask, self.rest, []
        return made

    def is_container(self) -> bool:
        return not (len(self.mask) == 1 and tree.structure(0) == self.structure)

    def same(self, other: PartitionedTree) -> bool:
        """Whether another value has this structure and these very leaves."""
        return (
            self.structure == other.structure
            and self.mask == other.mask
            and all(a is b for a, b in zip(self.arrays, other.arrays, strict=True))
            and all(a is b for a, b in zip(self.rest, other.rest, strict=True))
        )


class Outcome:
    """The effects of a cell on names: how each changed, and its new value. A pytree, so that a program can return it."""

    def __init__(self, values: Mapping[str, tuple[str, Any]]):
        self.values = dict(values)  # name -> ('set' | 'mutated' | 'deleted', value)


class _Names:
    """The static part of an outcome; equal only to itself."""

    __slots__ = ("how", "splits")

    def __init__(self, how, splits):
        self.how, self.splits = how, splits


def _flatten_outcome(outcome: Outcome):
    splits = {name: PartitionedTree(value) for name, (_, value) in outcome.values.items()}
    how = {name: how for name, (how, _) in outcome.values.items()}
    keys = [
        name + tree.keystr(path)
        for name, (_, value) in outcome.values.items()
        for path, leaf in flatten(value, tree.flatten_with_path)[0]
        if is_array(leaf)
    ]
    arrays = [array for split in splits.values() for array in split.arrays]
    return list(zip(keys, arrays, strict=True)), _Names(how, splits)


def _join_outcome(names: _Names, arrays) -> Outcome:
    arrays, values = list(arrays), {}
    at = 0
    for name, split in names.splits.items():
        n = len(split.arrays)
        values[name] = names.how[name], split.join(arrays[at : at + n])
        at += n
    return Outcome(values)


register_pytree_with_keys(Outcome, _flatten_outcome, _join_outcome)


class Cell:
    """A cell as a function of the arrays it reads.

    Args:
        source: Python text.
        namespace: the user's names; looked at now, changed by `commit`.
        filename: what tracebacks and source lines call it.
        first_line: number of the text's first line in that file.
        static: names that stay Python values although they hold arrays.
        named: names whose values the function returns apart, in front, so that shardings can be asked for them.
    """

    def __init__(
        self,
        source: str,
        namespace: dict[str, Any],
        *,
        filename: str = "<cell>",
        first_line: int = 1,
        static: tuple[str, ...] = (),
        named: tuple[str, ...] = (),
    ):
        self.source, self.namespace, self.filename, self.named = (
            source,
            namespace,
            filename,
            tuple(named),
        )
        self.static = tuple(static)
        module = ast.parse("\n" * (first_line - 1) + source, filename)
        read = [name for name in reads_of(module, filename, namespace) if name in namespace]
        self.body, self.last = _compile(module, filename)
        self.silent = source.rstrip().endswith(";")
        unknown = sorted({*static} - {*read})
        if unknown:
            raise NameError(
                f"--static {','.join(unknown)}: the cell does not read {unknown[0]!r}; it reads "
                f"{', '.join(read) or 'no name of this notebook'}"
            )
        self.splits = {
            name: split
            for name in read
            if name not in static
            for split in [_split(namespace[name])]
            if split is not None
        }
        self.reads = tuple(name for name, split in self.splits.items() if split.arrays)
        self._context = {name: namespace[name] for name in read if name not in self.reads}

    # -- as a function ---------------------------------------------------------------------------------

    def arguments(self) -> list[Any]:
        """The values of `reads`, as the function takes them."""
        return [self.splits[name].argument() for name in self.reads]

    def key(self) -> tuple[Any, ...]:
        """Equal for two cells exactly when one function may stand for both; holds what it compares by identity."""
        containers = tuple(
            (name, split.structure, split.mask, tuple(map(token, split.rest)))
            for name, split in self.splits.items()
        )
        context = tuple(
            (name, token(value)) for name, value in self._context.items() if name not in self.splits
        )
        # Its file too: a traceback names the cell that runs, not one whose text below another magic line is equal.
        where = self.source, self.filename, id(self.namespace)
        return *where, self.static, self.named, containers, context

    def function(self) -> Callable[..., Any]:
        """A pure function from `arguments()` to an `Outcome`, the same object for equal cells.

        With `named`, it returns `(tuple of their values, outcome)`.
        """
        return _functions.get_or_make(self.key(), self._function)

    def _function(self):
        made = _pure(
            self.body,
            self.last,
            self.namespace,
            self.reads,
            self.named,
            {name: split.emptied() for name, split in self.splits.items()},
            tuple(name for name in self._context if name not in self.splits),
        )
        # What the ledger calls it, and by what it tells one run of the cell from the next.
        made._xlab_location, made._xlab_key, made._xlab_values = (
            self.filename,
            self.source,
            dict(self._context),
        )
        return made

    # -- back to the user's names ----------------------------------------------------------------------

    def commit(self, returned: Any) -> Any:
        """Writes what the function returned to the namespace; returns the value of the last expression."""
        named, outcome = returned if self.named else ((), returned)
        values = {
            **{name: ("set", value) for name, value in zip(self.named, named, strict=True)},
            **outcome.values,
        }
        shown, last = values.pop(_LAST, ("set", None))
        for name, (how, value) in values.items():
            if how == "deleted":
                self.namespace.pop(name, None)
            elif how == "mutated":
                self.namespace[name] = write_back(self.namespace.get(name), value)
            else:
                self.namespace[name] = value
        if shown.startswith(_IS):
            last = self.namespace.get(shown.removeprefix(_IS))
        return None if self.silent else last


_IS = "is "
"""What the last expression is, before the name that holds it."""

_functions: caches.Latest[tuple, Callable] = caches.Latest(256)


def _pure(
    body: CodeType,
    last: CodeType | None,
    space: dict[str, Any],
    reads: tuple[str, ...],
    named: tuple[str, ...],
    splits: dict[str, PartitionedTree],
    others: tuple[str, ...],
) -> Callable[..., Any]:
    """The function of a cell: binds its arguments to their names in `space`, runs the code there, puts `space` back."""

    def cell(*arguments):
        before = dict(space)
        kept = Kept((name, space[name]) for name in others if name in space)
        given = dict(zip(reads, arguments, strict=True))
        bound: dict[str, tuple[Any, PartitionedTree]] = {}
        try:
            for name, split in splits.items():
                value = split.join(tree.leaves(given[name]) if name in given else ())
                space[name] = value
                bound[name] = value, PartitionedTree(value)
            exec(body, space)
            result = _MISSING if last is None else eval(last, space)
            changed = _changes(before, space, bound)
        finally:
            for name in space.keys() - before.keys():
                del space[name]
            space.update(before)
            lasting = kept.put_back()
        missing = [name for name in named if name not in changed]
        if missing:
            raise NameError(
                f"--out names {missing[0]!r}, which the cell does not assign; it assigns "
                f"{', '.join(changed) or 'nothing'}"
            )
        # What is shown and has a name is no result of its own: looking at it makes no second output.
        same = next(
            (
                name
                for name, (how, value) in changed.items()
                if value is result and how != "deleted"
            ),
            None,
        )
        same = same or next(
            (name for name, (value, _) in bound.items() if value is result and name not in changed),
            None,
        )
        apart = tuple(changed.pop(name)[1] for name in named)
        if result is not _MISSING:
            changed[_LAST] = ("set", result) if same is None else (_IS + same, None)
        if lasting is not None:
            raise lasting
        without_hidden(changed)
        return (apart, Outcome(changed)) if named else Outcome(changed)

    parameter = inspect.Parameter
    cell.__signature__ = inspect.Signature(
        [parameter(n, parameter.POSITIONAL_OR_KEYWORD) for n in reads]
    )
    cell.__qualname__ = "cell"
    return cell


def _compile(module: ast.Module, filename: str) -> tuple[CodeType, CodeType | None]:
    last = None
    if module.body and isinstance(module.body[-1], ast.Expr):
        last = compile(ast.Expression(module.body.pop().value), filename, "eval")
    return compile(module, filename, "exec"), last


def _split(value: Any) -> PartitionedTree | None:
    """A flattened value, or None if it is neither an array nor a container."""
    try:
        split = PartitionedTree(value)
    except Exception:  # a dict whose keys have no order, a list that holds itself, a class that fails to flatten: left alone
        return None
    return split if split.arrays or split.is_container() else None


_PYTHONS = frozenset({"__builtins__", "__warningregistry__"})
"""Names that Python itself puts among those of a cell: the second by a warning."""


def _changes(
    before: dict, after: dict, bound: dict[str, tuple[Any, PartitionedTree]]
) -> dict[str, tuple[str, Any]]:
    changed: dict[str, tuple[str, Any]] = {}
    for name, value in after.items():
        if name in bound:
            given, split = bound[name]
            if value is not given:
                changed[name] = "set", value
            elif split.is_container() and not PartitionedTree(value).same(split):
                changed[name] = "mutated", value
        elif value is not before.get(name, _MISSING) and name not in _PYTHONS:
            changed[name] = "set", value
    for name in before:
        if name not in after:
            changed[name] = "deleted", None
    return changed


def write_back(old: Any, new: Any) -> Any:
    """Makes the lists and dicts of `old` equal to those of `new` in place, so that other names for them see it.

    >>> a = {"w": [1, 2]}; b = a["w"]
    >>> write_back(a, {"w": [3]}) is a, b
    (True, [3])
    """
    if type(old) is list and type(new) is list:
        old[:] = [write_back(old[i], v) if i < len(old) else v for i, v in enumerate(new)]
        return old
    if type(old) is dict and type(new) is dict:
        joined = {k: write_back(old[k], v) if k in old else v for k, v in new.items()}
        old.clear()
        old.update(joined)
        return old
    return new
