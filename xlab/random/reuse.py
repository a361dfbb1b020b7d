"""Key reuse checks: under `config.debug_key_reuse` a key that is used twice is an error.

Drawing bits and splitting consume a key; folding data in does not, since other data give other keys, nor does reading its words. Every key
has a `KeyUse` that says whether it is used up; a value of a program is an array of cells, so that slices of an array of keys are followed
one by one. Raw keys are plain arrays and are not followed. Where a program chooses its keys at run time, the choice counts as new keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab.compile import runtime_checks
from xlab.compile.jit import jit_p
from xlab.core import source_info
from xlab.core.array import KeyArray
from xlab.core.avals import ShapedArray
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, inner_jaxprs, open_jaxpr
from xlab.errors import KeyReuseError
from xlab.interpreters.control_flow import BranchFlow, CallFlow, LoopFlow, flow_of
from xlab.lax.creation import optimization_barrier_p
from xlab.lax.device_put import device_put_p
from xlab.lax.shape import broadcast_in_dim_p, reshape_p, squeeze_p, transpose_p
from xlab.lax.slicing import slice_p
from xlab.random.bits import is_key_dtype, random_bits_p, random_split_p

MOST = 1 << 16
"""Larger arrays of keys are not followed."""


class KeyUse:
    """The state of one key: where it was consumed, if it was."""

    __slots__ = ("used",)

    def __init__(self):
        self.used = ""


class Use:
    """One walk through a program; `spent` are the keys it consumes, with the places."""

    def __init__(self, name: str):
        self.name, self.spent = name, {}
        self.at: JaxprEqn | None = (
            None  # the call of an internal function, whose own lines the user does not know
        )

    def run(self, jaxpr: Jaxpr | ClosedJaxpr, ins: Sequence) -> list:
        jaxpr = open_jaxpr(jaxpr)
        cells: dict[Any, Any] = dict(zip(jaxpr.invars, ins, strict=True))
        for v in jaxpr.constvars:
            cells[v] = fresh(v.aval)

        def read(a):
            return None if type(a) is Literal else cells.get(a)

        for eqn in jaxpr.eqns:
            given = [read(a) for a in eqn.invars]
            if any(c is not None for c in given) or (eqn.params and inner_jaxprs(eqn.params)):
                outs = self.equation(eqn, given)
            else:
                outs = [fresh(v.aval) for v in eqn.outvars]
            cells.update(zip(eqn.outvars, outs))
        return [read(v) for v in jaxpr.outvars]

    def equation(self, eqn: JaxprEqn, ins: list) -> list:
        prim, params = eqn.primitive, eqn.params
        if prim is random_bits_p or prim is random_split_p:
            self.spend(ins[0], eqn)
            return [fresh(v.aval) for v in eqn.outvars]
        follow = _FOLLOW.get(prim)
        if follow is not None:
            return [None if c is None else follow(c, params) for c in ins[: len(eqn.outvars)]]
        flow = flow_of(eqn)
        if type(flow) is BranchFlow:
            return self.branches(eqn, flow, ins)
        if type(flow) is LoopFlow:
            return self.loop(eqn, flow, ins)
        if type(flow) is CallFlow:
            outermost = (
                self.at is None
                and prim is jit_p
                and source_info.is_internal(
                    open_jaxpr(flow.jaxpr).debug_info.position.rpartition(":")[0]
                )
            )
            if not outermost:
                return self.call(eqn, flow.jaxpr, ins)
            self.at = eqn
            try:
                return self.call(eqn, flow.jaxpr, ins)
            finally:
                self.at = None
        return [fresh(v.aval) for v in eqn.outvars]

    def call(self, eqn, inner, ins) -> list:
        parts = [
            c if c is None or c.shape == v.aval.shape else fresh(v.aval)
            for c, v in zip(ins, open_jaxpr(inner).invars)
        ]
        outs = self.run(inner, parts)
        for whole, part in zip(ins, parts):  # cut into parts, one for each device
            if whole is not part and any(c in self.spent for c in part.flat):
                self.spend(whole, eqn)
        return [
            o if o is None or o.shape == v.aval.shape else fresh(v.aval)
            for o, v in zip(outs, eqn.outvars)
        ]

    def branches(self, eqn, flow: BranchFlow, ins) -> list:
        before, after, results = dict(self.spent), {}, []
        for branch in flow.branches:
            self.spent = dict(before)
            results.append(self.run(branch, ins[1:]))
            after.update(self.spent)
        self.spent = after
        return [
            outs[0] if all(o is outs[0] for o in outs) else fresh(v.aval)
            for v, *outs in zip(eqn.outvars, *results)
        ]

    def loop(self, eqn, flow: LoopFlow, ins) -> list:
        cond_consts, consts, carry, xs = flow.split(ins)
        k, length = flow.num_carry, flow.length
        # What one round uses up the next must not use.
        rows = [0, 1] if length is None or length > 1 else [0] * length
        for i in rows:
            if flow.cond is not None:
                self.run(flow.cond, [*cond_consts, *carry])
            carry = self.run(
                flow.body,
                [
                    *consts,
                    *carry,
                    *(None if x is None else x[i : i + 1].reshape(x.shape[1:]) for x in xs),
                ],
            )[:k]
        for x in xs:  # and so on with the other rows
            if x is not None and length:
                for one, whole in zip(x[:1].flat, np.moveaxis(x, 0, -1).reshape(-1, length)):
                    if one in self.spent:
                        self.spent.update((c, self.spent[one]) for c in whole)
        return [*carry, *(fresh(v.aval) for v in eqn.outvars[k:])]

    def spend(self, cells, eqn) -> None:
        if cells is None:
            return
        where = f"{eqn.primitive.name} at {(self.at or eqn).source_info}"
        for cell in cells.flat:
            first = cell.used or self.spent.get(cell)
            if first:
                raise reused(f"{where}, in {self.name},", first)
        self.spent.update((cell, where) for cell in cells.flat)


def reused(what: str, first: str) -> KeyReuseError:
    return KeyReuseError(
        f"{what} uses a key that was used before, by {first}: two draws from one key are equal. Split it, `key, subkey = "
        f"xlab.random.split(key)`, and use each once; inside a loop xlab.random.fold_in(key, i) gives a key for each round; "
        f"xlab.random.clone(key) says that equal draws are meant."
    )


def fresh(aval):
    """States of new keys; None for other values and for very large key arrays."""
    if not isinstance(aval, ShapedArray) or not is_key_dtype(aval.dtype) or aval.size > MOST:
        return None
    out = np.empty(aval.shape, object)
    for i in np.ndindex(aval.shape):
        out[i] = KeyUse()
    return out


def _broadcast(cells, p):
    shape = [1] * len(p["shape"])
    for d, size in zip(p["broadcast_dimensions"], cells.shape):
        shape[d] = size
    return np.broadcast_to(cells.reshape(shape), p["shape"])


def _as_is(cells, p):
    return cells


_FOLLOW: dict[Any, Callable[[Any, dict], Any]] = {
    slice_p: lambda c, p: np.asarray(
        c[tuple(map(slice, p["start_indices"], p["limit_indices"], p["strides"] or [1] * c.ndim))]
    ),
    reshape_p: lambda c, p: c.reshape(p["new_sizes"]),
    squeeze_p: lambda c, p: c.squeeze(tuple(p["dimensions"])),
    transpose_p: lambda c, p: c.transpose(p["permutation"]),
    broadcast_in_dim_p: _broadcast,
    optimization_barrier_p: _as_is,
    device_put_p: _as_is,
}


# -- keys between programs ------------------------------------------------------------------------------------


def cells_of(key):
    """The states of a concrete key array; None for other values."""
    if type(key) is not KeyArray:
        return None
    found = getattr(key, "_cells", None)
    if found is None:
        found = fresh(key.aval)
        if found is not None:
            key._cells = found
    return found


def use(name: str, key) -> None:
    """Consumes a key; raises if it was consumed before."""
    cells = cells_of(key)
    if cells is None:
        return
    where = f"{name} at {source_info.describe_caller()}"
    for cell in cells.flat:
        if cell.used:
            raise reused(where, cell.used)
    for cell in cells.flat:
        cell.used = where


def _check(name: str, closed: ClosedJaxpr, flat: Sequence) -> Callable[[Sequence], None]:
    walk = Use(f"jit({name})")
    jaxpr = closed.jaxpr
    inner = Jaxpr(
        (),
        [*jaxpr.constvars, *jaxpr.invars],
        jaxpr.outvars,
        jaxpr.eqns,
        debug_info=jaxpr.debug_info,
    )
    results = walk.run(inner, [*map(cells_of, closed.consts), *map(cells_of, flat)])

    def ran(outs):
        for cell, where in walk.spent.items():
            cell.used = where
        for x, cells in zip(outs, results):
            if type(x) is KeyArray and cells is not None:
                x._cells = np.asarray(cells)

    return ran


runtime_checks.watch_keys(runtime_checks.KeyWatch(_check, use, cells_of))
