"""Frames: one per program being run, with its variables and its next equation. They can be copied, and hold no Python generator.

A `Plan` is what is known of a jaxpr before it runs, made once: per equation its kind, where its operands come from, and how an
equation without references is evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab.backend import caches
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, last_uses, open_jaxpr
from xlab.core.refs import AbstractRef
from xlab.interpreters.control_flow import BranchFlow, CallFlow, LoopFlow, flow_of

PLAIN, RULE, FREE, ENTER = range(4)


class Op:
    """One equation, prepared.

    `kind`: PLAIN is evaluated on arrays; RULE has a rule of the interpreter; FREE takes no turn (the program's position);
    ENTER is a program inside, which gets a frame.
    """

    __slots__ = ("dead", "eqn", "flow", "ins", "kind", "memo", "outs", "params", "prim", "rule")

    eqn: JaxprEqn
    prim: Any
    params: dict[str, Any]
    kind: int
    ins: tuple
    outs: tuple
    dead: tuple
    rule: Any
    flow: Any
    memo: dict  # what a rule has found out about the equation


class Plan:
    """A jaxpr, prepared."""

    __slots__ = ("jaxpr", "ops")

    def __init__(self, jaxpr: Jaxpr, rules: Any):
        self.jaxpr = jaxpr
        self.ops = [_prepare(eqn, dead, rules) for eqn, dead in zip(jaxpr.eqns, last_uses(jaxpr))]


_plans: caches.Latest[Jaxpr, Plan] = caches.Latest(1024)
caches.register(_plans.clear)


def plan_of(jaxpr: Jaxpr, rules: Any) -> Plan:
    """The plan of a jaxpr, remembered."""
    found = _plans.get(jaxpr)
    if found is None:
        found = _plans[jaxpr] = Plan(jaxpr, rules)
    return found


def _prepare(eqn: JaxprEqn, dead, rules) -> Op:
    op = Op()
    op.eqn, op.prim = eqn, eqn.primitive
    # Operands as (variable, None) or (None, value): looked up without asking for types again.
    op.ins = tuple((None, a.val) if type(a) is Literal else (a, None) for a in eqn.invars)
    op.outs, op.dead, op.memo = tuple(eqn.outvars), tuple(dead), {}
    op.params, op.flow = eqn.params, None
    if "donated_invars" in op.params:  # the frame still needs the operands
        op.params = {**op.params, "donated_invars": (False,) * len(eqn.invars)}
    op.rule, op.kind = rules.get(eqn.primitive), RULE
    if op.rule is not None:
        if getattr(op.rule, "takes_no_turn", False):
            op.kind = FREE
        elif getattr(op.rule, "enters", False):
            op.kind = ENTER
        return op
    flow = flow_of(eqn)
    if isinstance(flow, (CallFlow, BranchFlow, LoopFlow)):
        op.kind, op.flow = ENTER, flow
        return op
    refs = [a for a in (*eqn.invars, *eqn.outvars) if type(a.aval) is AbstractRef]
    if refs:
        raise NotImplementedError(
            f"the value interpreter has no rule for the primitive '{eqn.primitive}' on references, used at {eqn.source_info}: "
            f"run the kernel with interpret=True"
        )
    op.kind = PLAIN
    return op


class KernelFrame:
    """A program being run. `prefix` is the path of its equations; `loop` the state of the loop it is a round of."""

    __slots__ = ("env", "label", "leave", "loop", "op", "pc", "plan", "prefix")

    def __init__(
        self,
        plan: Plan,
        values: Sequence[Any],
        prefix: str,
        label: str,
        op: Op | None = None,
        loop: KernelLoop | None = None,
        leave: Any = None,
    ):
        self.plan, self.prefix, self.label = plan, prefix, label
        self.op = op  # of the outer frame: gets the results
        self.loop, self.leave = loop, leave
        self.pc = 0
        jaxpr = plan.jaxpr
        self.env: dict[Var, Any] = dict(
            zip([*jaxpr.constvars, *jaxpr.invars] if jaxpr.constvars else jaxpr.invars, values)
        )

    @property
    def waits_to_settle(self) -> bool:
        """Whether the next equation is none that takes a turn."""
        ops = self.plan.ops
        return self.pc >= len(ops) or ops[self.pc].kind >= FREE

    @property
    def next(self) -> Op | None:
        """The next equation."""
        return self.plan.ops[self.pc] if self.pc < len(self.plan.ops) else None

    @property
    def path(self) -> str:
        """The path of the next equation."""
        return f"{self.prefix}/{self.pc}"

    @property
    def title(self) -> str:
        return self.label if self.loop is None else self.loop.title(self.label)

    def outputs(self) -> list:
        env = self.env
        return [a.val if type(a) is Literal else env[a] for a in self.plan.jaxpr.outvars]

    def copy(self) -> KernelFrame:
        new = object.__new__(KernelFrame)
        new.plan, new.prefix, new.label, new.op = self.plan, self.prefix, self.label, self.op
        new.pc, new.leave, new.env = self.pc, self.leave, dict(self.env)
        new.loop = None if self.loop is None else self.loop.copy()
        return new


class KernelLoop:
    """The state of a loop between its rounds."""

    index = 0
    section = "body"

    def title(self, label: str) -> str:
        return label

    def advance(self, outs: list | None) -> tuple[ClosedJaxpr | Jaxpr, list] | None:
        """The next program with its operands, after the results of the one before; None at the end."""
        raise NotImplementedError

    def results(self) -> list:
        """The results of the loop's equation."""
        raise NotImplementedError

    def copy(self):
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new


class ScanLoop(KernelLoop):
    """A loop over rows."""

    def __init__(self, operands: Sequence[Any], flow: LoopFlow):
        _, self.consts, self.carry, xs = flow.split(operands)
        self.xs = [np.asarray(x) if hasattr(x, "dtype") else x for x in xs]
        self.body, self.length, self.reverse = flow.body, int(flow.length or 0), flow.reverse
        self.avals = [v.aval for v in open_jaxpr(flow.body).outvars[len(self.carry) :]]
        self.ys: tuple = ()
        self.index = -1

    def title(self, label):
        return f"{label} {self.index + 1}/{self.length}"

    def advance(self, outs):
        if outs is not None:
            self.carry = outs[: len(self.carry)]
            if self.avals:
                self.ys = (self.ys, outs[len(self.carry) :])  # a chain: copies of the loop share it
        self.index += 1
        if self.index >= self.length:
            return None
        at = self.length - 1 - self.index if self.reverse else self.index
        return self.body, [*self.consts, *self.carry, *(x[at] for x in self.xs)]

    def results(self):
        ys, rest = [], self.ys
        while rest:
            rest, last = rest
            ys.append(last)
        ys = ys if self.reverse else ys[::-1]
        stacked = [
            np.stack([np.asarray(y[i]) for y in ys]) if ys else np.zeros((0, *a.shape), a.dtype)
            for i, a in enumerate(self.avals)
        ]
        return [*self.carry, *stacked]


class WhileLoop(KernelLoop):
    """A loop as long as a condition holds."""

    def __init__(self, operands: Sequence[Any], flow: LoopFlow):
        self.cond_consts, self.body_consts, self.carry, _ = flow.split(operands)
        self.condition, self.body = flow.cond, flow.body
        self.testing = False

    @property
    def section(self):  # type: ignore[override]
        return "condition" if self.testing else "body"

    def title(self, label):
        return f"{label} {self.index}" + (" condition" if self.testing else "")

    def advance(self, outs):
        if self.testing:
            if not bool(outs[0]):
                return None
            self.testing = False
            self.index += 1
            return self.body, [*self.body_consts, *self.carry]
        if outs is not None:
            self.carry = outs
        self.testing = True
        return self.condition, [*self.cond_consts, *self.carry]

    def results(self):
        return list(self.carry)


def program_of(inner: ClosedJaxpr | Jaxpr, values: Sequence[Any]) -> tuple[Jaxpr, list]:
    """An inner program and its values, those of its constants first."""
    if isinstance(inner, ClosedJaxpr):
        return inner.jaxpr, [*inner.consts, *values]
    return inner, list(values)
