"""Data flow through the inner jaxprs of an equation: operands to their inputs, outputs to results.

A primitive with inner jaxprs has one entry in `control_flow_rules`; code that follows values through a program reads it here.
`define_call` (`calls.py`) makes the entry of a primitive that calls one jaxpr.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from xlab.core.hi_states import AvalQDD
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, open_jaxpr, subjaxprs_of_params
from xlab.core.primitive import Primitive
from xlab.core.rules import RuleTable

control_flow_rules = RuleTable(
    "control_flow.control_flow_rules",
    "follow values through the jaxprs inside",
    "rule(params) -> CallFlow, BranchFlow, LoopFlow or OpaqueFlow",
    required=False,
)
"""For primitives with inner jaxprs. Worked example, for a primitive that calls the jaxpr in its parameter `jaxpr` on all its
operands: `lambda params: CallFlow(params["jaxpr"])`."""

loop_params: dict[Primitive, Callable[[LoopFlow], dict]] = {}
"""Of loops: the parameters that say how values flow through one."""


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


# -- values of mutable hi types ----------------------------------------------------------------------------


def states_after(eqn: JaxprEqn) -> Iterator[tuple[Any, Any]]:
    """The operands of mutable hi types that go into programs inside an equation, each with the state that these leave it in.

    Raises:
        TypeError: branches leave different states, or a round of a loop changes one.
    """
    flow = flow_of(eqn)
    if type(flow) is CallFlow:
        yield from _left_by(flow.jaxpr, eqn.invars)
    elif type(flow) is BranchFlow:
        for states in zip(*(_left_by(b, eqn.invars[1:]) for b in flow.branches)):
            (atom, first), *others = states
            if any(qdd != first for _, qdd in others):
                raise TypeError(
                    f"branches of {eqn.primitive.name} leave a value of type {atom.aval} in different states: "
                    f"{', '.join(str(qdd) for _, qdd in states)}. Which arrays it consists of must not depend on the branch that runs."
                )
            yield atom, first
    elif type(flow) is LoopFlow:
        for program in filter(None, (flow.cond, flow.body)):
            for v in open_jaxpr(program).invars:
                if type(v.aval) is AvalQDD and v.aval.qdd != v.aval.final:
                    name = {"while": "while_loop"}.get(eqn.primitive.name, eqn.primitive.name)
                    raise TypeError(
                        f"type-changing mutations not allowed in {name} body: a value of type {v.aval} goes in with the state {v.aval.qdd} and "
                        f"comes out of a round with {v.aval.final}. Every round runs the same program: bring it to its final form before the loop."
                    )


def _left_by(program, operands) -> list[tuple[Any, Any]]:
    pairs = zip(operands, open_jaxpr(program).invars)
    return [(atom, v.aval.final) for atom, v in pairs if type(v.aval) is AvalQDD]
