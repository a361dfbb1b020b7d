"""Arguments of a jitted function: which are static or donated, where they and the results lie, and what errors call them."""

from __future__ import annotations

import inspect
import itertools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.compile import layouts
from xlab.compile.devices import check_memory, is_compatible, leaves_room
from xlab.compile.placement import as_sharding, is_open
from xlab.compile.resolve import LoweringRequest
from xlab.compile.tracing import TracedProgram, argument_names, function_name, result_namer
from xlab.core.array import is_native_array
from xlab.core.avals import aval_of, value_and_type
from xlab.sharding import Format, PartitionSpec, Sharding, get_concrete_mesh
from xlab.sharding.auto import AutoSharding, check_one_mesh


class JitArguments:
    """The options of one `jit` about its arguments and results: static, donated, shardings.

    With `moves_arguments`, arguments are moved to the device named by `jit(device=, backend=)`.
    """

    def __init__(
        self,
        fun: Callable,
        name: str,
        in_shardings,
        out_shardings,
        static_argnums,
        static_argnames,
        donate_argnums,
        donate_argnames,
        moves_arguments: bool,
    ):
        self.fun, self.name, self.moves_arguments = fun, name, moves_arguments
        self.in_shardings, self.out_shardings = in_shardings, out_shardings
        self.static_argnums, self.static_argnames = static_positions(
            fun, static_argnums, static_argnames
        )
        self.donate_argnums, self.donate_argnames = static_positions(
            fun, donate_argnums, donate_argnames
        )
        check_apart(
            fun,
            (self.static_argnums, self.static_argnames),
            (self.donate_argnums, self.donate_argnames),
        )

    def flatten(self, args, kwargs):
        """Dynamic leaves, their structure, and the static values as a hashable key."""
        nums, names = self.static_argnums, self.static_argnames
        if not nums and not names:
            flat, in_tree = _tree.flatten((args, kwargs))
            return flat, in_tree, ()
        n = len(args)
        fixed = {i % n if n else i for i in nums if -n <= i < n}
        static = (
            tuple((i, StaticValue(args[i], self.name)) for i in sorted(fixed)),
            tuple((k, StaticValue(kwargs[k], self.name)) for k in sorted(kwargs) if k in names),
        )
        dynamic = tuple(a for i, a in enumerate(args) if i not in fixed)
        dynamic_kw = {k: v for k, v in kwargs.items() if k not in names}
        flat, in_tree = _tree.flatten((dynamic, dynamic_kw))
        return flat, in_tree, static

    def names(self, in_tree, n: int, static: tuple) -> tuple[str, ...]:
        """What errors call the leaves of the arguments that are not static."""
        return argument_names(self.fun, in_tree, n, [i for i, _ in static[0]] if static else ())

    def positions(self, n: int) -> tuple[int, list[int]]:
        """How many positional arguments a call has of which `n` are not static, and the positions of those."""
        for total in range(n + len(self.static_argnums), n, -1):
            fixed = {i % total for i in self.static_argnums if -total <= i < total}
            if total - len(fixed) == n:
                return total, [i for i in range(total) if i not in fixed]
        return n, list(range(n))

    def donated(self, in_tree, n: int) -> tuple[bool, ...]:
        """Which leaves of the arguments are donated."""
        if not self.donate_argnums and not self.donate_argnames:
            return (False,) * n
        args, kwargs = _tree.treedef_children(in_tree)
        numbers = {*self.donate_argnums}
        parts = args.children()
        total, dynamic = self.positions(len(parts))
        out: list[bool] = []
        for i, part in zip(dynamic, parts):
            out += [i in numbers or i - total in numbers] * part.num_leaves
        for name, part in zip(kwargs.node_data()[1], kwargs.children()):
            out += [name in self.donate_argnames] * part.num_leaves
        return tuple(out)

    def of_arguments(self, in_tree, n: int, read: Callable[[Any], Any]) -> tuple:
        """For each flat argument, what `read` takes from the user's `in_shardings`."""
        shardings = self.in_shardings
        if shardings is None:
            return (None,) * n
        parts, kwargs = _tree.treedef_children(in_tree)
        if kwargs.num_leaves and not self.moves_arguments:
            raise ValueError(
                f"jit({self.name}) with in_shardings does not support keyword arguments, got {', '.join(kwargs.node_data()[1])}: "
                f"in_shardings say in order where positional arguments lie. Pass them by position, or leave in_shardings out "
                f"and place the arguments with xlab.device_put."
            )
        args = parts.children()
        each = (
            tuple(shardings) if isinstance(shardings, (list, tuple)) else (shardings,) * len(args)
        )
        args = [_laid_under(s, part) for part, s in itertools.zip_longest(args, each[: len(args)])]
        try:
            flat = _tree.flatten_prefix("in_shardings", each, tuple(args), is_leaf=is_sharding_leaf)
        except ValueError as e:
            raise ValueError(
                f"in_shardings of jit({self.name}) must be a sharding for all {len(args)} positional arguments, or a pytree prefix of "
                f"their tuple: {e}"
            ) from None
        return tuple(map(read, (*flat, *(shardings,) * (n - len(flat)))))

    def of_results(self, program: TracedProgram, read: Callable[[Any], Any]) -> tuple:
        """For each flat result, what `read` takes from the user's `out_shardings`."""
        n = len(program.closed.out_avals)
        if self.out_shardings is None:
            return (None,) * n
        like = _laid_under(self.out_shardings, program.out_tree)
        try:
            flat = _tree.flatten_prefix(
                "out_shardings", self.out_shardings, like, is_leaf=is_sharding_leaf
            )
        except ValueError as e:
            raise ValueError(
                f"out_shardings of jit({self.name}) must be a pytree prefix of what it returns: {e}"
            ) from None
        # The values of references that it writes come after what it returns.
        return *map(read, flat), *(None,) * (n - len(flat))

    def request(
        self,
        program: TracedProgram,
        placements: tuple,
        flat: list,
        in_tree,
        *,
        keep_unused: bool,
        compiler_options: Mapping[str, Any],
        platform: str | None = None,
    ) -> LoweringRequest:
        """The `Request` to lower a traced program for arguments with these placements."""
        info = program.closed.jaxpr.debug_info
        n, ref_discharge = in_tree.num_leaves, program.ref_discharge
        ins = self.of_arguments(in_tree, n, as_sharding)
        outs = self.of_results(program, as_sharding)
        if check_one_mesh((*ins, *outs), f"jit({self.name})"):
            keep_unused = True  # they are chosen for all arguments
            ins, outs = (
                tuple(
                    s.of_rank(getattr(a, "ndim", 0)) if type(s) is AutoSharding else s
                    for s, a in zip(found, avals)
                )
                for found, avals in (
                    (ins, program.closed.in_avals),
                    (outs, program.closed.out_avals),
                )
            )
        ins = tuple(
            given if is_open(asked) and given is not None and leaves_room(asked, given) else asked
            for asked, given in zip(ins, placements)
        )
        avals = program.closed.in_avals
        for i, (asked, given, aval) in enumerate(zip(ins, placements, avals)):
            if (
                asked is not None
                and given is not None
                and not self.moves_arguments
                and not is_compatible(asked, given, aval.ndim)
            ):
                raise ValueError(
                    f"jit({self.name}) got argument `{info.arg_name(i)}` of type {aval} with sharding {given}, but in_shardings asks "
                    f"for {asked}. Move it first with xlab.device_put(x, {asked}), or leave this entry of in_shardings "
                    f"out to follow the argument."
                )
            check_memory(
                asked, aval, lambda i=i: f"jit({self.name}) got argument `{info.arg_name(i)}`"
            )
        donated = [i for i, d in enumerate(self.donated(in_tree, n)) if d]
        if ref_discharge is not None:  # references keep their places, and their buffers
            ins += (None,) * len(ref_discharge.captured)
            outs = (*outs[: ref_discharge.n_out], *(placements[i] for i in ref_discharge.written))
            donated = sorted(
                {*donated, *ref_discharge.written}
                - (set(ref_discharge.refs) - set(ref_discharge.written))
            )
        in_layouts = self.of_arguments(in_tree, n, layouts.requested_layout)
        # Of a ShapeDtypeStruct.
        in_layouts = tuple(w or getattr(x, "_layout", None) for x, w in zip(flat, in_layouts))
        out_layouts = self.of_results(program, layouts.requested_layout)
        return LoweringRequest(
            placements,
            in_shardings=ins,
            out_shardings=outs,
            donated=donated,
            keep_unused=keep_unused,
            result_name=result_namer(program.out_tree),
            context_mesh=get_concrete_mesh(),
            compiler_options=compiler_options,
            in_layouts=layouts.pad_layouts(in_layouts, len(ins)),
            out_layouts=layouts.pad_layouts(out_layouts, len(outs)),
            platform=platform,
        )


class StaticValue:
    """A static argument as part of a key: by value, with an error that explains when it has no hash."""

    __slots__ = ("value",)

    def __init__(self, value, name):
        try:
            hash(value)
        except TypeError:
            raise ValueError(
                f"a static argument of jit({name}) is {value_and_type(value)}, which has no hash, so it "
                f"cannot select a compiled program: use a hashable value (a tuple instead of a list), or do not mark it "
                f"static if it is an array"
            ) from None
        self.value = value

    def __eq__(self, other):
        return (
            type(other) is StaticValue
            and type(self.value) is type(other.value)
            and self.value == other.value
        )

    def __hash__(self):
        return hash(self.value)

    def __repr__(self):
        return repr(self.value)


def put_back(static, args, kwargs):
    """The arguments with the static ones in their places."""
    args = list(args)
    for i, s in static[0]:
        args.insert(i, s.value)
    return tuple(args), {**kwargs, **{k: s.value for k, s in static[1]}}


def static_option(fun: Callable, path: str) -> str:
    """How to mark the argument that `Arguments.names` called `path` static: by name, or by number if it is one of `*args`."""
    root, _, rest = path.replace(".", "[").partition("[")
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return f"static_argnums={rest.split(']')[0]}"
    for i, p in enumerate(parameters):
        if p.kind is p.VAR_POSITIONAL and p.name == root:
            return f"static_argnums={i + int(rest.split(']')[0])}"
    return f"static_argnames={root!r}"


def stand_ins(treedef) -> list:
    """What stands for the leaves of a structure; classes that sort values from settings take a bare object for a value."""
    return [object() for _ in range(treedef.num_leaves)]


def _laid_under(shardings, treedef):
    """What a pytree of shardings is a prefix of. One sharding for all does not ask how it is made: a class may refuse what stands for its parts."""
    leaves = stand_ins(treedef)
    return leaves if is_sharding_leaf(shardings) else _tree.unflatten(treedef, leaves)


def is_sharding_leaf(x) -> bool:
    """Whether a node is a leaf in a pytree of shardings."""
    return x is None or isinstance(x, (Sharding, PartitionSpec, Format))


def static_positions(fun, nums, names) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Completes argument numbers from names or names from numbers, by the function's signature.

    Where both were given they are taken as they are: a wrapper may pass its arguments on in other places than its signature says.
    """
    complete = nums is None or names is None
    nums = (
        ()
        if nums is None
        else tuple(map(operator.index, nums))
        if np.iterable(nums)
        else (operator.index(nums),)
    )
    names = () if names is None else (names,) if isinstance(names, str) else tuple(names)
    if not nums and not names:
        return (), ()
    found = _parameters(fun)
    if found is None:
        return nums, names
    positional, known, star, variadic = found
    for n in names:
        if n not in known and not variadic:
            raise ValueError(
                f"jitted function {function_name(fun)} has no argument named {n!r}; its arguments are "
                f"{sorted(known)}"
            )
    for i in nums:
        if not star and not -len(positional) <= i < len(positional):
            raise ValueError(
                f"argument number {i} is out of range: {function_name(fun)} takes {len(positional)} "
                f"positional arguments"
            )
    counted = [i + len(positional) if i < 0 and not star else i for i in nums]
    if not complete:
        return tuple(dict.fromkeys(counted)), tuple(dict.fromkeys(names))
    by_name = tuple(i for i, p in enumerate(positional) if p in names)
    all_nums = tuple(dict.fromkeys((*counted, *by_name)))
    all_names = tuple(
        dict.fromkeys((*names, *(positional[i] for i in all_nums if 0 <= i < len(positional))))
    )
    return all_nums, all_names


def check_apart(fun, static: tuple, donated: tuple) -> None:
    """Raises where an argument is both static and donated: a static argument has no buffer to donate."""
    if donated[0] or donated[1]:
        both = [
            *sorted({*static[1]} & {*donated[1]}),
            *([] if static[1] and donated[1] else sorted({*static[0]} & {*donated[0]})),
        ]
        if both:
            raise ValueError(
                f"static and donated arguments of {function_name(fun)} cannot intersect, got both for {', '.join(map(repr, both))}: "
                f"a static argument has no buffer to donate"
            )


def _parameters(fun):
    """Positional names, all names, and whether there are `*args` and `**kwargs`; None if the signature is unknown."""
    code = getattr(fun, "__code__", None)
    if code is not None and not hasattr(fun, "__wrapped__") and not hasattr(fun, "__signature__"):
        # Read off the code object: `inspect` takes a hundred times as long, and this runs for every function at import.
        n, m = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
        return (
            list(code.co_varnames[:n]),
            set(code.co_varnames[:m]),
            bool(code.co_flags & inspect.CO_VARARGS),
            bool(code.co_flags & inspect.CO_VARKEYWORDS),
        )
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return None
    return (
        [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)],
        {p.name for p in parameters},
        any(p.kind is p.VAR_POSITIONAL for p in parameters),
        any(p.kind is p.VAR_KEYWORD for p in parameters),
    )


def check_addressable(name: str, flat) -> None:
    """Refuses operands of an eager operation that span processes, for the option `spmd_mode`."""
    for i, x in enumerate(flat):
        if is_native_array(x) and not x.is_fully_addressable:
            raise RuntimeError(
                f"{name} was called outside of jit on an array of type {aval_of(x).str_short(short_dtypes=True)} that spans processes (operand {i}), while "
                f"spmd_mode is 'allow_jit'. All processes have to run the same operations in the same order: call it in a function "
                f"under xlab.jit, or allow single operations with xlab.config.update('spmd_mode', 'allow_all')."
            )


def check_outermost(options, name: str, source=None) -> None:
    """Raises where a jitted function with its own compiler options is called inside another program."""
    if options:
        raise ValueError(
            f"compiler_options can only be given to the outermost jit: {dict(options)} of jit({name}){f' at {source}' if source else ''} "
            f"would be lost, since it is compiled as a part of the program around it. Give them to that one."
        )
