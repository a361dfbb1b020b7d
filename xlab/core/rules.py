"""`RuleTable`: an interpreter's rules, by primitive.

A table maps primitives to rules. It can also say *why* a primitive has none, and it reports a missing rule with
the user's line and the file where the rule belongs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from xlab.core import source_info
from xlab.errors import MissingRule

if TYPE_CHECKING:
    from xlab.core.primitive import Primitive

_tables: dict[str, RuleTable] = {}


def tables() -> dict[str, RuleTable]:
    """All rule tables of the process by name, in order of declaration."""
    return dict(_tables)


class RuleTable(MutableMapping):
    """A mapping from primitive to rule; a primitive without a rule can have a stated reason.

    Args:
        name: how the table is called in messages and in the printed matrix.
        purpose: completes "there is no rule to ..." in the error for a missing rule.
        signature: the form of a rule, shown to people who write one.
        required: whether every primitive must have a rule here or an excuse.
        registration: how a rule is registered, if not by assignment to the table; `{}` stands for the primitive's name.
        phrase: the words with which the field's errors of a missing rule begin, which programs and searches look for.
    """

    def __init__(
        self,
        name: str,
        purpose: str,
        signature: str,
        *,
        required: bool = True,
        registration: str = "",
        phrase: str = "",
    ):
        self.name, self.purpose, self.signature, self.required = name, purpose, signature, required
        self.phrase = phrase
        self.registration = registration or f"{name}[{{}}_p] = rule"
        self._rules: dict[Primitive, Callable[..., Any]] = {}
        self._excuses: dict[Primitive, str] = {}
        _tables[name] = self
        # The hot look-up, without the mapping protocol in between; it hides the method on purpose.
        self.get = self._rules.get  # type: ignore[method-assign, assignment]

    def __getitem__(self, primitive: Primitive) -> Callable[..., Any]:
        rule = self._rules.get(primitive)
        if rule is None:
            raise self.missing(primitive)
        return rule

    def __setitem__(self, primitive: Primitive, rule: Callable[..., Any]) -> None:
        self._rules[primitive] = rule

    def __delitem__(self, primitive):
        del self._rules[primitive]

    def __iter__(self) -> Iterator[Primitive]:
        return iter(self._rules)

    def __len__(self):
        return len(self._rules)

    def __contains__(self, primitive):
        return primitive in self._rules

    def look_up_through(
        self, seen: Callable[[Primitive, Callable[..., Any]], Callable[..., Any]] | None
    ) -> None:
        """Makes `get` return `seen`'s replacement for each rule that is looked up; None undoes it."""
        get = self._rules.get
        if seen is None:
            self.get = get  # type: ignore[method-assign, assignment]
            return

        def through(primitive: Primitive, default: Any = None) -> Any:
            rule = get(primitive)
            return default if rule is None else seen(primitive, rule)

        self.get = through  # type: ignore[method-assign]

    def excuse(self, primitive: Primitive, reason: str) -> None:
        """States why `primitive` has no rule here; the reason is part of the error message."""
        self._excuses[primitive] = reason

    def excuse_for(self, primitive: Primitive) -> str | None:
        return self._excuses.get(primitive)

    def missing(self, primitive: Primitive, goal: str = "") -> MissingRule:
        """The error for using `primitive` with this interpreter; `goal` says for what, as ` for the platform cpu`."""
        reason = self._excuses.get(primitive)
        field = self.phrase.format(primitive.name, goal.replace(" the ", " "))
        known = f"{field}: " if field else ""
        if reason:
            return MissingRule(
                f"{known}cannot {self.purpose} '{primitive.name}'{goal}: {reason} (at {source_info.describe_caller()})"
            )
        where = getattr(primitive, "module", None)
        return MissingRule(
            f"{known}there is no rule to {self.purpose} '{primitive.name}'{goal} (at {source_info.describe_caller()}). A rule has "
            f"the form {self.signature} and is registered with {self.registration.format(primitive.name)}"
            + (f", beside the primitive in {where}" if where else "")
        )

    def __repr__(self):
        return f"RuleTable({self.name}, {len(self._rules)} rules)"
