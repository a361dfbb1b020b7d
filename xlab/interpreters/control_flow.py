"""Data flow through the inner jaxprs of an equation: operands to their inputs, outputs to results.

A primitive with inner jaxprs has one entry in `control_flow_rules`; code that follows values through a program reads it here.
`define_call` (`calls.py`) makes the entry of a primitive that calls one jaxpr.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, subjaxprs_of_params
from xlab.core.rules import RuleTable

control_flow_rules = RuleTable(
    "control_flow.control_flow_rules",
    "follow values through the jaxprs inside",
    "rule(params) -> CallFlow, BranchFlow, LoopFlow or OpaqueFlow",
    required=False,
)
"""For primitives with inner jaxprs. Worked example, for a primitive that calls the jaxpr in its parameter `jaxpr` on all its
operands: `lambda params: CallFlow(params["jaxpr"])`."""


class CallFlow(NamedTuple):
    """One jaxpr, called once: its inputs are the operands, its outputs the results."""

    jaxpr: Jaxpr | ClosedJaxpr

    @property
    def jaxprs(self) -> tuple:
        return (("body", self.jaxpr),)


class BranchFlow(NamedTuple):
    """The first operand says which of several jaxprs runs. Their inputs are the other operands, their outputs the results."""

    branches: tuple

    @property
    def jaxprs(self) -> tuple:
        return tuple((f"branch {i}", branch) for i, branch in enumerate(self.branches))


class LoopFlow(NamedTuple):
    """A body that is repeated.

    Operands: constants of the condition (if there is one), constants of the body, the carry, and arrays of which every round gets one
    row. The body takes its constants, the carry and the rows; it gives the next carry, and rows of the results after the carry. The
    condition takes its constants and the carry, and says whether there is a next round.
    """

    body: Jaxpr | ClosedJaxpr
    num_consts: int
    num_carry: int
    cond: Jaxpr | ClosedJaxpr | None = None
    cond_consts: int = 0
    length: int | None = None
    reverse: bool = False

    @property
    def jaxprs(self) -> tuple:
        return (
            (("body", self.body),)
            if self.cond is None
            else (("condition", self.cond), ("body", self.body))
        )

    def split(self, operands: Sequence) -> tuple[list, list, list, list]:
        """Operands as constants of the condition, constants of the body, carry, and arrays taken row by row."""
        a = self.cond_consts
        b = a + self.num_consts
        c = b + self.num_carry
        return list(operands[:a]), list(operands[a:b]), list(operands[b:c]), list(operands[c:])


class OpaqueFlow(NamedTuple):
    """Named jaxprs that the primitive calls in its own way: any input may depend on any operand."""

    jaxprs: tuple


Flow = CallFlow | BranchFlow | LoopFlow | OpaqueFlow


def flow_of(eqn: JaxprEqn) -> Flow | None:
    """How values flow through the jaxprs inside an equation; None if there are none."""
    rule = control_flow_rules.get(eqn.primitive)
    if rule is not None:
        return rule(eqn.params)
    inner = tuple(subjaxprs_of_params(eqn.params))
    return OpaqueFlow(inner) if inner else None
