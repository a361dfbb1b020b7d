"""Checks the arguments of ahead-of-time compiled programs; an error names every mismatch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlab import tree as _tree
from xlab.compile import layouts
from xlab.compile.executable import Executable
from xlab.compile.history.parts import short
from xlab.compile.placement import arg_sharding
from xlab.compile.structures import around_difference, missing_and_more, other_containers
from xlab.core.array import is_native_array
from xlab.core.avals import aval_of
from xlab.core.trace import EVAL, Tracer, state
from xlab.sharding import NamedSharding
from xlab.sharding.placement import default_layout

SHOWN = 5
"""Mismatches that one error spells out."""

NAMED = 16
"""Arguments with the same mismatch that it names."""


def leaves(
    owner: Any, static: tuple, in_tree: Any, names: Sequence[str], args: tuple, kwargs: dict
) -> list:
    """The flat dynamic arguments of a call; static arguments may be omitted or must be unchanged.

    Args:
        static: the static arguments the program was compiled for, as the jit that made it flattened them.
        names: those of the arguments it was compiled for.
    """
    flat, given_tree = _tree.flatten((args, kwargs))
    if given_tree == in_tree:
        return flat
    given_static: tuple = ()
    nums, by_name = static or ((), ())
    n = len(_tree.treedef_children(_tree.treedef_children(in_tree)[0])) + len(nums)
    if static and (len(args) == n or any(k in kwargs for k, _ in by_name)):
        values = dict(kwargs)
        fixed = {i: args[i] for i, _ in nums} if len(args) == n else {}
        found = {k: values.pop(k) for k, _ in by_name if k in values}
        wrong = [
            f"`{_static_name(owner, i)}`: compiled for {was!r}, called with {short(fixed[i])}"
            for i, was in nums
            if i in fixed and not _same(was, fixed[i])
        ]
        wrong += [
            f"`{k}`: compiled for {was!r}, called with {short(found[k])}"
            for k, was in by_name
            if k in found and not _same(was, found[k])
        ]
        if wrong:
            raise TypeError(
                f"{owner.name} was compiled for other values of its static arguments: {listed(wrong)}. They are part of the program: "
                f"leave them out, or compile it again for other values"
            )
        given_static = static
        args, kwargs = tuple(a for i, a in enumerate(args) if i not in fixed), values
        flat, given_tree = _tree.flatten((args, kwargs))
        if given_tree == in_tree:
            return flat
    raise TypeError(_structures(owner, given_static or static, in_tree, names, flat, given_tree))


def _same(was: Any, given: Any) -> bool:
    return type(was.value) is type(given) and bool(was.value == given)


def _static_name(owner: Any, i: int) -> str:
    code = getattr(owner.fun, "__code__", None)
    return code.co_varnames[i] if code is not None and i < code.co_argcount else f"args[{i}]"


def _structures(owner, static, in_tree, names, flat, given_tree) -> str:
    given = owner.names(given_tree, len(flat), static)
    missing, more = missing_and_more(names, given)
    wrong = [f"`{n}` is missing" for n in missing] + [f"`{n}` was not there" for n in more]
    text = f"{owner.name} was compiled for arguments of another structure"
    if not wrong:
        changed = list(other_containers(in_tree, given_tree, names))
        if changed:
            return f"{text}: the same values in other containers, where {listed(changed)}. The type of a container is part of the structure"
        was, now = around_difference(str(in_tree), str(given_tree))
        return f"{text}: the same values by keyword and not by position, or the other way around. It was compiled for {was} and called with {now}"
    passed = {n.split("[")[0].split(".")[0] for n in missing} & {
        n.split("[")[0].split(".")[0] for n in more
    }
    hint = "" if not passed else ". Lists, tuples, dicts and None are part of the structure"
    left = " Static arguments are part of the program, and are left out." if static else ""
    return f"{text}, {len(wrong)} difference{'s' * (len(wrong) != 1)}: {listed(wrong)}{hint}.{left}"


def listed(wrong: Sequence[str]) -> str:
    """The first items as text, with the total number where some are omitted."""
    return "; ".join(wrong[:SHOWN]) + (
        f" ({SHOWN} of {len(wrong)} shown)" if len(wrong) > SHOWN else ""
    )


def _placed_anywhere(aval: Any) -> Any:
    """A type without what placements say too: where the array lies is compared, or changed, by its placement.

    A mesh without devices is never that of an array, and values that have not been placed yet have no sharding in their type.
    """
    sharding = getattr(aval, "explicit_sharding", None)
    if sharding is None or sharding.spec.unreduced or sharding.spec.reduced:
        return aval.strip_weak_type()
    return aval.update(weak_type=False, sharding=None)


def check(
    name: str,
    executable: Executable,
    names: Sequence[str],
    flat: Sequence,
    examples: Sequence = (),
) -> None:
    """Raises unless the values have the types and placements that a program was compiled for.

    A layout may also be that of the example it was lowered with, which a copy brings into the program's own.
    """
    for x in flat:
        if isinstance(x, Tracer):
            raise TypeError(
                f"{name} is compiled: it runs on concrete arrays, not under a transformation; it was called with a {type(x).__name__} of type "
                f"{x.aval}. Transform the function, and compile the result"
            )
    if state.trace is not EVAL:
        raise TypeError(
            f"{name} is compiled: it runs on concrete arrays, not under a transformation"
        )
    check_types(name, executable.in_avals, names, flat)
    called = _called(names, len(flat))
    wrong: list[tuple[str, str]] = []
    kinds = set()
    asked = executable.lowered.in_layouts or (None,) * len(executable.kept)
    for i, s, layout in zip(executable.kept, executable.in_shardings, asked):
        given = arg_sharding(flat[i])
        if given is None:
            continue
        what = f"of type {aval_of(flat[i]).str_short(short_dtypes=True)}: compiled for"
        if not given.is_equivalent_to(s, flat[i].ndim):
            kinds.add("shardings")
            wrong.append((called[i], f"{what} {_briefly(s)}, called with {_briefly(given)}"))
        want = layout or default_layout(flat[i].ndim)
        found = layouts.layout_of(flat[i])
        example = examples[i] if i < len(examples) and is_native_array(examples[i]) else None
        if (
            layouts.in_use()
            and found != want
            and not (example is not None and found == layouts.layout_of(example))
        ):
            kinds.add("layouts")
            wrong.append((called[i], f"{what} {_order(want)}, called with {_order(found)}"))
    if wrong:
        raise ValueError(
            f"{name} was called with arguments of other {' and '.join(sorted(kinds, reverse=True))} than it was compiled for: "
            f"{_together(wrong, len(flat))}. Move them with xlab.device_put(x, compiled.input_{'formats' if 'layouts' in kinds else 'shardings'}"
            f"...), or compile it for these"
        )


def check_types(name: str, avals: Sequence, names: Sequence[str], flat: Sequence) -> None:
    """Raises unless the values have the types that a program was made for."""
    called = _called(names, len(flat))
    wrong: list[tuple[str, str]] = []
    for x, want, path in zip(flat, avals, called):
        got = aval_of(x)
        if _placed_anywhere(got) is not _placed_anywhere(want):
            wrong.append(
                (
                    path,
                    f"compiled for {want.str_short(short_dtypes=True)}, called with {got.str_short(short_dtypes=True)}",
                )
            )
    if wrong:
        raise TypeError(
            f"{name} was called with arguments of other types than it was compiled for: {_together(wrong, len(flat))}. "
            f"If a dtype is off by its width, compare enable_x64."
        )


def _called(names: Sequence[str], count: int) -> list[str]:
    return [f"`{names[i]}`" if i < len(names) else f"`argument {i}`" for i in range(count)]


def _together(wrong: Sequence[tuple[str, str]], n: int) -> str:
    """Every mismatch, those of one kind together; and how many of `n` arguments they are."""
    by_text: dict[str, list[str]] = {}
    for path, text in wrong:
        by_text.setdefault(text, []).append(path)
    named = [
        f"{', '.join(paths[:NAMED])}{f' and {len(paths) - NAMED} more' * (len(paths) > NAMED)}"
        + (": " if text.startswith("compiled") else " ")
        + text
        for text, paths in by_text.items()
    ]
    count = len({path for path, _ in wrong})
    return listed(named) + (f" ({count} of {n} arguments)" if count >= SHOWN else "")


def _order(layout: Any) -> str:
    return f"major_to_minor={layout.major_to_minor}"


def _briefly(sharding: Any) -> str:
    if not isinstance(sharding, NamedSharding):
        return str(sharding)
    axes = ", ".join(f"{n}={s}" for n, s in sharding.mesh.shape.items())
    devices = [d.id for d in sharding.devices_in_order]
    kind = f", {sharding.memory_kind}" if sharding.memory_kind not in (None, "device") else ""
    return f"{sharding.spec} over ({axes}) of devices {devices if len(devices) <= 8 else f'{devices[:3]}...'}{kind}"
