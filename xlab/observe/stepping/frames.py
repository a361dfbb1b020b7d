"""Frames of the stepping machine: one per program being run, and the state of loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from xlab.core.avals import aval_of
from xlab.core.hi_states import is_mutable
from xlab.core.hi_types import in_use
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, last_uses
from xlab.interpreters.control_flow import LoopFlow
from xlab.observe.stepping.kernels import KernelPoints


def in_other_places(values: Iterable, places: dict[int, Any]) -> list:
    """The values, with copies of those of mutable hi types; `places` remembers the copies by the ids of the originals."""

    def copy(x: Any) -> Any:
        if not is_mutable(x):
            return x
        if id(x) not in places:
            ty: Any = aval_of(x)
            qdd = x.cur_qdd()
            places[id(x)] = ty.new_from_loval(qdd, *ty.read_loval(qdd, x))
        return places[id(x)]

    return list(map(copy, values)) if in_use.mutable else list(values)


class Frame:
    """A program being run: its variables, the next equation, and what surrounds it."""

    __slots__ = ("dirty", "env", "eqn", "jaxpr", "label", "last", "loop", "pc", "points")

    def __init__(
        self,
        jaxpr: Jaxpr,
        values: list,
        label: str,
        eqn: JaxprEqn | None = None,
        loop: Loop | None = None,
    ):
        self.jaxpr, self.label, self.eqn, self.loop = jaxpr, label, eqn, loop
        self.points: KernelPoints | None = None
        self.last = last_uses(jaxpr)
        self.dirty = False
        self.start(values)

    def start(self, values: list) -> None:
        self.env: dict[Any, Any] = dict(
            zip([*self.jaxpr.constvars, *self.jaxpr.invars], values, strict=True)
        )
        self.pc = 0

    def read(self, atom: Any) -> Any:
        return atom.val if type(atom) is Literal else self.env[atom]

    @property
    def outputs(self) -> list:
        return [self.read(a) for a in self.jaxpr.outvars]

    @property
    def title(self) -> str:
        inside = self.loop or self.points
        return inside.title(self.label) if inside is not None else self.label

    def copy(self, places: dict[int, Any]) -> Frame:
        """A frame that goes on by itself; `places` are the copies of values that change in place, by the ids of these."""
        new = object.__new__(Frame)
        for name in Frame.__slots__:
            setattr(new, name, getattr(self, name))
        new.env = dict(zip(self.env, in_other_places(self.env.values(), places)))
        if self.loop is not None:
            new.loop = self.loop.copy()
            for name, found in vars(new.loop).items() if in_use.mutable else ():
                if isinstance(found, list):
                    setattr(new.loop, name, in_other_places(found, places))
        if self.points is not None:
            new.points = self.points.copy()
        return new


class Loop:
    """The state of a loop between its iterations. `next(outs)` gives the next program with its values, or None at the end."""

    index = 0
    note = ""  # what became of it, where that is not plain

    def title(self, label: str) -> str:
        return label

    def next(self, outs: list | None) -> tuple[ClosedJaxpr, list] | None:
        return None

    def results(self, stack: Callable) -> list:
        return []

    def copy(self):
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new


class Scan(Loop):
    def __init__(self, operands: Any, flow: LoopFlow, take: Any):
        _, self.consts, self.carry, self.xs = flow.split(operands)
        self.body, self.length, self.reverse, self.take = (
            flow.body,
            int(flow.length or 0),
            flow.reverse,
            take,
        )
        self.ys: tuple = ()
        self.index = -1

    def title(self, label):
        return f"{label} {self.index + 1}/{self.length}"

    def next(self, outs):
        if outs is not None:
            self.carry = outs[: len(self.carry)]
            self.ys = (*self.ys, outs[len(self.carry) :])
        self.index += 1
        if self.index >= self.length:
            return None
        at = self.length - 1 - self.index if self.reverse else self.index
        return self.body, [*self.consts, *self.carry, *(self.take(x, at) for x in self.xs)]

    def results(self, stack):
        ys = self.ys[::-1] if self.reverse else self.ys
        return [*self.carry, *(stack([y[i] for y in ys]) for i in range(len(ys[0]) if ys else 0))]


class While(Loop):
    """A `while`. `truth` says whether a condition holds, None where devices disagree: `rest` then runs what is left of the loop."""

    def __init__(self, operands: Any, flow: LoopFlow, truth: Any, rest: Any):
        self.rest = rest
        self.cond_consts, self.body_consts, self.carry, _ = flow.split(operands)
        self.condition, self.body, self.truth = flow.cond, flow.body, truth
        self.testing = False

    def title(self, label):
        return f"{label} {self.index}" + (" condition" if self.testing else "")

    def next(self, outs):
        if self.testing:
            holds = self.truth(outs[0])
            if holds is None:
                self.carry = self.rest([*self.cond_consts, *self.body_consts, *self.carry])
                self.note = (
                    f"from iteration {self.index} on the devices disagree: the rest ran at once"
                )
            if not holds:
                return None
            self.testing = False
            self.index += 1
            return self.body, [*self.body_consts, *self.carry]
        if outs is not None:
            self.carry = outs
        self.testing = True
        return self.condition, [*self.cond_consts, *self.carry]

    def results(self, stack):
        return list(self.carry)
