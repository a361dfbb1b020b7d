"""Effects: what an equation does besides computing its results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable
from typing import Any


class Effect:
    """Base of all effects. Instances are compared by class unless a subclass says otherwise."""

    ordered = False  # instances run in program order, chained by a token
    in_control_flow = True  # may stand inside cond, while and scan
    shardable = False  # an ordered effect that may run on several devices

    def __eq__(self, other):
        return type(self) is type(other)

    def __hash__(self):
        return hash(type(self))

    def __repr__(self):
        return type(self).__name__


class NamedAxisEffect(Effect):
    """The equation communicates over a named axis; discharged by what binds the axis."""

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return type(self) is type(other) and self.name == other.name

    def __hash__(self):
        return hash((NamedAxisEffect, self.name))

    def __repr__(self):
        return f"NamedAxisEffect({self.name!r})"


class DebugEffect(Effect):
    """A debugging callback; dead code elimination keeps it."""

    def __str__(self):
        return "Debug"


class OrderedDebugEffect(Effect):
    """A debugging callback that runs in program order."""

    ordered = True

    def __str__(self):
        return "OrderedDebug"


class IOEffect(Effect):
    """A callback with side effects that the program relies on."""

    def __str__(self):
        return "IO"


class OrderedIOEffect(Effect):
    """A callback with side effects that the program relies on, in program order."""

    ordered = True
    shardable = True

    def __str__(self):
        return "OrderedIO"


debug_effect = DebugEffect()
ordered_debug_effect = OrderedDebugEffect()
io_effect = IOEffect()
ordered_io_effect = OrderedIOEffect()
IO_EFFECTS = (IOEffect, OrderedIOEffect)


class RefEffect(Effect):
    """A mutable reference is touched: operand number `input` of an equation.

    For a program `input` counts its inputs; its constants come before them, so the last constant is -1.
    """

    def __init__(self, input: int):
        self.input = input

    def __eq__(self, other):
        return type(self) is type(other) and self.input == other.input

    def __hash__(self):
        return hash((type(self), self.input))

    def __repr__(self):
        return f"{type(self).__name__.removesuffix('Effect')}<{self.input}>"


class ReadEffect(RefEffect):
    """The reference is read."""


class WriteEffect(RefEffect):
    """The reference is written."""


class AccumEffect(RefEffect):
    """Something is added to the reference."""


class InternalMutableArrayEffect(Effect):
    """The equation makes a reference, or has inside a program that does."""


INTERNAL_REF = InternalMutableArrayEffect()
_PASSING = (NamedAxisEffect, ReadEffect, InternalMutableArrayEffect)
NO_EFFECTS: frozenset[Effect] = frozenset()
Effects = frozenset
no_effects = NO_EFFECTS


def join(effect_sets: Iterable[frozenset[Effect]]) -> frozenset[Effect]:
    """Union of several sets of effects; the shared empty set where there are none."""
    out: frozenset[Effect] = NO_EFFECTS
    for effects in effect_sets:
        if effects:
            out = out | effects
    return out


def prevents_dce(effects: Collection[Effect]) -> bool:
    """Whether these effects keep an equation whose results are unused; communicating and reading
    a reference do not."""
    return bool(effects) and any(not isinstance(e, _PASSING) for e in effects)


def in_order(effects: Collection[Effect]) -> tuple[Effect, ...]:
    """The ordered effects among these, sorted by name; each is chained through a program by a token."""
    if not effects:
        return ()
    return tuple(sorted((e for e in effects if e.ordered), key=str))


def without_axes(effects: Collection[Effect], names: Container[Any]) -> frozenset[Effect]:
    """The effects that remain once the named axes are bound."""
    if not effects:
        return NO_EFFECTS
    return frozenset(e for e in effects if not (isinstance(e, NamedAxisEffect) and e.name in names))


def on_refs(effects: Collection[Effect]) -> bool:
    """Whether any effect is on a mutable reference, made inside or passed in."""
    return bool(effects) and any(
        isinstance(e, (RefEffect, InternalMutableArrayEffect)) for e in effects
    )


def written(effects: Iterable[Effect]) -> set[int]:
    """Positions of the references that are written or added to."""
    return {e.input for e in effects if isinstance(e, (WriteEffect, AccumEffect))}


def moved(effects: frozenset[Effect], place: Callable[[int], int | None]) -> frozenset[Effect]:
    """Effects with references at other positions: `place(i)` is the new one, or None for a reference that is left out."""
    if not any(isinstance(e, RefEffect) for e in effects):
        return effects
    out: set[Effect] = set()
    for e in effects:
        if isinstance(e, RefEffect):
            i = place(e.input)
            if i is not None:
                out.add(type(e)(i))
        else:
            out.add(e)
    return frozenset(out)


class EffectTypeSet:
    """The types of effects that may stand inside `cond`, `while_loop` and `scan`: those whose `in_control_flow` says so, and their subclasses.

    Example:
        >>> control_flow_allowed_effects.contains(debug_effect)
        True
    """

    def add_type(self, effect_type: type[Effect]) -> None:
        """Lets effects of a type stand there."""
        if not (isinstance(effect_type, type) and issubclass(effect_type, Effect)):
            raise TypeError(f"add_type takes a subclass of Effect, got {effect_type!r}")
        effect_type.in_control_flow = True

    def contains(self, effect: Effect) -> bool:
        """Whether an effect may."""
        return effect.in_control_flow

    def filter_in(self, effects: Iterable[Effect]) -> list[Effect]:
        """Those of the effects that may."""
        return [e for e in effects if e.in_control_flow]

    def filter_not_in(self, effects: Iterable[Effect]) -> list[Effect]:
        """Those that may not."""
        return [e for e in effects if not e.in_control_flow]


control_flow_allowed_effects = EffectTypeSet()


def check_control_flow(name: str, effects: Iterable[Effect]) -> None:
    """Raises NotImplementedError where an effect may not stand inside of control flow."""
    refused = sorted({type(e).__name__ for e in effects if not e.in_control_flow})
    if refused:
        raise NotImplementedError(
            f"Effects not supported in `{name}`: {', '.join(refused)}. Its class says in_control_flow = False: if the body may run any number "
            f"of times, add it with control_flow_allowed_effects.add_type."
        )
