"""From values of hi types to arrays: the program that is compiled.

A program is run once more, with the values themselves in place of its variables of hi types: objects of the user's classes whose arrays are traced.
Operations on them run through their definition (`HiPrimitive.to_lojax`), all others are recorded. Equations with programs inside take the
arrays of their operands, and their programs are lowered in the same way; a value of a mutable type has its last arrays among the results, and takes them
afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlab.core.hi_states import AvalQDD, MutableHiType, is_mutable, typed
from xlab.core.hi_types import in_use, is_high, value_classes
from xlab.core.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr, Var, eval_jaxpr, inner_jaxprs
from xlab.core.primitive import Primitive
from xlab.core.rules import RuleTable
from xlab.core.trace import Tracer
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.calls import calls
from xlab.interpreters.control_flow import (
    BranchFlow,
    CallFlow,
    LoopFlow,
    control_flow_rules,
    loop_params,
)
from xlab.interpreters.hi_primitives import HiPrimitive

lojax_rules = RuleTable(
    "lojax.lojax_rules",
    "put arrays in place of values of hi types for",
    "rule(*operands, **params) -> results, computed with the values themselves",
    required=False,
)
"""For primitives that are defined by Python functions and are no `HiPrimitive`s."""


recast: dict[Primitive, Callable[[Any, dict], Any]] = {}
"""Of casts of types: what is left of one for an array whose type says more than that of the value it belonged to, parameters or None."""


class LoProgram(NamedTuple):
    """A program on arrays in place of one on values of hi types.

    Its inputs are the arrays of the original's inputs, then those of `captured`; its results the arrays of the original's results, then the last
    ones of the inputs in `written`.
    """

    closed: ClosedJaxpr
    ins: tuple  # types of the inputs, captured values after the others
    outs: tuple
    written: tuple[
        tuple[int, Any], ...
    ]  # inputs of mutable types that are changed, each with its last state
    captured: tuple = ()  # values of mutable types that the original closes over

    @property
    def at_boundary(self) -> bool:
        """Whether some input or result is a value of a hi type."""
        return any(map(is_high, (*self.ins, *self.outs)))

    @property
    def in_counts(self) -> list[int]:
        return [len(a.lo_ty()) for a in self.ins]

    @property
    def out_counts(self) -> list[int]:
        return [len(a.lo_ty()) for a in self.outs]

    def arguments(self, values: Sequence) -> list:
        """The arrays of the inputs."""
        return [p for a, x in zip(self.ins, (*values, *self.captured)) for p in parts_of(a, x)]

    def results(self, values: Sequence, arrays: Sequence) -> list:
        """The original's results, given those of the program on arrays; changes the values that it changes."""
        rest = iter(arrays)
        outs = [
            a.raise_val(*(next(rest) for _ in a.lo_ty())) if is_high(a) else next(rest)
            for a in self.outs
        ]
        values = (*values, *self.captured)
        for i, qdd in self.written:
            ty = self.ins[i].aval
            ty.update_from_loval(qdd, values[i], *(next(rest) for _ in ty.lo_ty_qdd(qdd)))
        return outs


def parts_of(aval, x) -> list:
    """The arrays of a value of a given type."""
    if type(aval) is AvalQDD:
        return list(aval.aval.read_loval(aval.qdd, x))
    return list(aval.lower_val(x)) if is_high(aval) else [x]


def uses_hi_types(closed: ClosedJaxpr | Jaxpr) -> bool:
    """Whether a program has values of hi types or operations on them, somewhere inside."""
    if not in_use.types:
        return False
    closed = pe.close_jaxpr(closed) if type(closed) is Jaxpr and not closed.constvars else closed
    if type(closed) is Jaxpr:
        return _uses(closed)
    return closed.memo("uses hi types", lambda: (_uses(closed.jaxpr),))[0]


def _uses(jaxpr: Jaxpr) -> bool:
    if any(is_high(v.aval) for v in (*jaxpr.constvars, *jaxpr.invars, *jaxpr.outvars)):
        return True
    return any(
        isinstance(e.primitive, HiPrimitive)
        or e.primitive in lojax_rules
        or any(is_high(v.aval) for v in e.outvars)
        or any(map(_uses, inner_jaxprs(e.params)))
        for e in jaxpr.eqns
    )


def lower_hi_types(closed: ClosedJaxpr, written: Sequence[int] = ()) -> LoProgram:
    """The program on arrays. Inputs in `written` have their last arrays among the results even where nothing changes them."""
    return closed.memo(("on arrays", tuple(written)), lambda: _lower(closed, frozenset(written)))


def _lower(closed: ClosedJaxpr, wanted: frozenset) -> LoProgram:
    jaxpr = closed.jaxpr
    moved = [i for i, v in enumerate(jaxpr.constvars) if type(v.aval) is AvalQDD]
    ins = tuple(v.aval for v in (*jaxpr.invars, *(jaxpr.constvars[i] for i in moved)))
    outs = tuple(jaxpr.out_avals)
    n = len(jaxpr.invars)
    written: list[tuple[int, Any]] = []
    for a in outs:
        if isinstance(a, MutableHiType) or type(a) is AvalQDD:
            raise TypeError(
                f"a value of the mutable hi type {a} is a result of {jaxpr.debug_info.name}, but such values cannot be returned from programs: they "
                f"change in place. Return what it holds, or pass it in and change it there."
            )

    def run(*arrays):
        rest = iter(arrays)
        values = [_raised(a, [next(rest) for _ in a.lo_ty()]) for a in ins]
        before = [parts_of(a, x) if type(a) is AvalQDD else [] for a, x in zip(ins, values)]
        consts = list(closed.consts)
        for i, x in zip(moved, values[n:]):
            consts[i] = x
        results = eval_jaxpr(jaxpr, consts, *values[:n])
        flat = [p for a, x in zip(outs, results) for p in parts_of(a, x)]
        for i, (a, x, was) in enumerate(zip(ins, values, before)):
            if type(a) is not AvalQDD:
                continue
            qdd = x.cur_qdd()
            now = list(a.aval.read_loval(qdd, x))
            if (
                i in wanted
                or qdd != a.qdd
                or len(now) != len(was)
                or any(p is not q for p, q in zip(now, was))
            ):
                written.append((i, qdd))
                flat += now
        return flat

    info = jaxpr.debug_info
    names = (
        (*info.arg_names, *("a value closed over" for _ in moved))
        if len(info.arg_names) == n
        else ()
    )
    names = tuple(name for name, a in zip(names, ins) for _ in a.lo_ty())
    trace = LoTrace(info.name)
    new, consts = pe.trace_to_jaxpr(
        run,
        [p for a in ins for p in a.lo_ty()],
        DebugInfo(info.name, names, (), info.position, info.around),
        trace=trace,
    )
    return LoProgram(
        ClosedJaxpr(new, consts), ins, outs, tuple(written), tuple(closed.consts[i] for i in moved)
    )


def _raised(aval, parts):
    if type(aval) is AvalQDD:
        return aval.aval.new_from_loval(aval.qdd, *parts)
    return aval.raise_val(*parts) if is_high(aval) else parts[0]


class LoTrace(pe.DynamicJaxprTrace):
    """Records operations on arrays; values of hi types are the objects themselves."""

    __slots__ = ()

    def cur_qdd(self, x):
        return x.cur_qdd()

    def process_primitive(self, prim, args, params):
        if isinstance(prim, HiPrimitive):
            return prim.impl(*args, **params)
        rule = lojax_rules.get(prim)
        if rule is not None:
            return rule(*args, **params)
        if any(map(_is_value, args)) or any(map(uses_hi_types, inner_jaxprs(params))):
            return self._lower_equation(prim, args, params)
        if prim in recast and (params := recast[prim](args[0], params)) is None:
            return args[0]
        return super().process_primitive(prim, args, params)

    def process_custom_jvp(self, prim, fun, jvp, args, params):
        return fun(*args)  # derivatives were taken before

    def process_custom_vjp(self, prim, fun, fwd, bwd, args, params):
        return fun(*args)

    def _lower_equation(self, prim, args, params):
        rule = control_flow_rules.get(prim)
        flow = None if rule is None else rule(params)
        if type(flow) is CallFlow:
            return self._call(prim, flow, args, params)
        if type(flow) is LoopFlow:
            return self._loop(prim, flow, args, params)
        if type(flow) is BranchFlow:
            return self._branch(prim, flow, args, params)
        raise TypeError(
            f"{prim.name} calls programs in a way of its own, and these work on values of hi types: only calls, loops and branches can. Take the arrays "
            f"out of the values before it."
        )

    def _record(self, prim, args, params):
        return super().process_primitive(prim, args, params)

    def _call(self, prim, flow, args, params):
        call = calls.get(prim)
        if (
            call is None
        ):  # calls of functions with derivatives of their own, which were taken before
            closed = (
                flow.jaxpr if isinstance(flow.jaxpr, ClosedJaxpr) else pe.close_jaxpr(flow.jaxpr)
            )
            return eval_jaxpr(closed.jaxpr, closed.consts, *args)
        with call.context(params):
            low = lower_hi_types(call.closed(params))
        operands, params = call.applied(
            low.closed,
            low.arguments(args),
            params,
            "lower",
            low.in_counts,
            low.out_counts,
            [(i, len(low.ins[i].aval.lo_ty_qdd(qdd))) for i, qdd in low.written],
        )
        return low.results(args, self._record(prim, operands, params))

    def _branch(self, prim, flow, args, params):
        index, *ops = args
        first = [lower_hi_types(b) for b in flow.branches]
        written = sorted({i for low in first for i, _ in low.written})
        lows = [lower_hi_types(b, written) for b in flow.branches]
        outs = self._record(
            prim,
            [index, *lows[0].arguments(ops)],
            {**params, "branches": tuple(low.closed for low in lows)},
        )
        return lows[0].results(ops, outs)

    def _loop(self, prim, flow, args, params):
        body = lower_hi_types(flow.body)
        cond_args, consts, carry, rows = flow.split(args)
        nc, nk = len(consts), len(carry)
        for x in (*carry, *rows):
            if is_mutable(x):
                raise TypeError(
                    f"a value of type {x!r} of a mutable hi type is in the carry or among the rows of {prim.name}: it changes in place, so let the "
                    f"body close over it"
                )
        changed = [i for i, _ in body.written]
        counts = body.in_counts
        places = _places(counts)
        fixed = [p for i in range(nc) if i not in changed for p in places[i]]
        kept = [p for i in range(nc, nc + nk) for p in places[i]]
        state = [p for i in changed for p in places[i]]
        order = [
            *fixed,
            *kept,
            *state,
            *(p for i in range(nc + nk, len(counts)) for p in places[i]),
        ]
        n_carry = sum(body.out_counts[:nk])
        n_out = sum(body.out_counts)
        n_all = n_out + len(state)
        new_body = reordered(
            body.closed, order, [*range(n_carry), *range(n_out, n_all), *range(n_carry, n_out)]
        )
        given = (*consts, *carry, *rows)
        # Rows come out of batches, and results after the carry are put together as some.
        whole = lambda a: a.with_dimension(0, flow.length) if is_high(a) else a
        types = [a if i < nc + nk else whole(a) for i, a in enumerate(body.ins)]
        outs_whole = tuple(a if i < nk else whole(a) for i, a in enumerate(body.outs))
        arrays = [p for a, x in zip(types, given) for p in parts_of(a, x)]
        flow = flow._replace(body=new_body, num_consts=len(fixed), num_carry=n_carry + len(state))
        before: list = []
        if flow.cond is not None:
            cond, before = self._condition(flow.cond, cond_args, [consts[i] for i in changed])
            flow = flow._replace(cond=cond, cond_consts=len(before))
        outs = self._record(
            prim, [*before, *(arrays[p] for p in order)], {**params, **loop_params[prim](flow)}
        )
        a, b = n_carry, n_carry + len(state)
        return body._replace(outs=outs_whole).results(given, [*outs[:a], *outs[b:], *outs[a:b]])

    def _condition(self, cond, args, changed):
        """The condition on arrays, which gets the values that the body changes from the carry."""
        low = lower_hi_types(cond)
        if low.written:
            raise TypeError(
                "the condition of a while_loop changes a value of a mutable hi type: change it in the body"
            )
        places = _places(low.in_counts)
        found = [next((j for j, y in enumerate(changed) if y is x), None) for x in args]
        own = [p for i, j in enumerate(found) if j is None for p in places[i]]
        inner = low.closed.jaxpr.invars
        # Inputs: constants of its own, the carry, the arrays of what the body changes.
        fresh = [[Var(a) for a in typed(x).lo_ty()] for x in changed]
        for i, j in enumerate(found):
            if j is not None:
                fresh[j] = [inner[p] for p in places[i]]
        carry = [inner[p] for group in places[len(args) :] for p in group]
        invars = [*(inner[p] for p in own), *carry, *(v for group in fresh for v in group)]
        arrays = [p for a, x in zip(low.ins, args) for p in parts_of(a, x)]
        closed = ClosedJaxpr(low.closed.jaxpr.replace(invars=invars), low.closed.consts)
        return closed, [arrays[p] for p in own]


def _places(counts: Sequence[int]) -> list[range]:
    """Where the arrays of each value are among those of all."""
    out, n = [], 0
    for c in counts:
        out.append(range(n, n + c))
        n += c
    return out


def reordered(closed: ClosedJaxpr, inputs: Sequence[int], outputs: Sequence[int]) -> ClosedJaxpr:
    """The program with its inputs and outputs in another order."""
    j = closed.jaxpr
    return ClosedJaxpr(
        Jaxpr(
            j.constvars,
            [j.invars[i] for i in inputs],
            [j.outvars[i] for i in outputs],
            j.eqns,
            debug_info=j.debug_info,
        ),
        closed.consts,
    )


def _is_value(x) -> bool:
    """Whether an operand is a value of a hi type, as it is or traced."""
    return type(x) in value_classes or (isinstance(x, Tracer) and is_high(x.aval))
