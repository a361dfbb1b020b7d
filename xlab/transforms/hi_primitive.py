"""Primitives as classes: an implementation in array operations, and rules for the transformations that need them.

A subclass of `VJPHiPrimitive` says its types, `expand` (how it is computed, for evaluation and lowering), and those rules that programs use: `vjp_fwd`
with `vjp_bwd_retval` backwards, `jvp` forwards, `lin` with `linearized` for linearization, `batch` or `batch_dim_rule` for `vmap`. In programs it
is one equation, `call_hi_primitive`. The tangent of one with a backward rule goes through the equation `hi_tangent`, which is evaluated by `jvp`
and transposed by the backward rule, so that both modes use what was written for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlab import tree as _tree
from xlab.core.avals import aval_of
from xlab.core.hi_types import as_value, is_high
from xlab.core.primitive import Primitive
from xlab.core.trace import is_tracer, state
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.ad import Zero
from xlab.interpreters.hi_primitives import AxisData, vary_with_values, varying_types
from xlab.interpreters.lojax import lojax_rules
from xlab.transforms.vmap import vmap


class CotangentAccumulator:
    """Where a backward rule adds the cotangent of one operand.

    Attributes:
        aval: the type of the cotangent.
        total: what was added so far, None if nothing was.
    """

    __slots__ = ("aval", "total")

    def __init__(self, aval):
        self.aval, self.total = aval, None

    def accum(self, x) -> None:
        """Adds a cotangent; None adds nothing."""
        if x is not None and type(x) is not Zero:
            self.total = x if self.total is None else ad.add_jaxvals(self.total, x)

    def __repr__(self):
        return f"CotangentAccumulator({self.aval.str_short(short_dtypes=True)})"


class VJPHiPrimitive:
    """A primitive with rules of its own: see the example.

    A subclass sets in `__init__`, before it calls `super().__init__()`:

    - `in_avals`: a tuple, for each operand its type or a pytree of types;
    - `out_aval`: the type of the result or a pytree of types;
    - `params`: static parameters by name, which become attributes.

    Two instances are equal if their classes, types and parameters are.

    Example:
        >>> import xlab, xlab.numpy as jnp
        >>> class Square(VJPHiPrimitive):
        ...     def __init__(self, aval):
        ...         self.in_avals, self.out_aval, self.params = (aval,), aval, {}
        ...         super().__init__()
        ...     def expand(self, x):
        ...         return x * x
        ...     def vjp_fwd(self, nzs_in, x):
        ...         return self(x), x
        ...     def vjp_bwd_retval(self, x, g):
        ...         return (2 * x * g,)
        >>> square = lambda x: Square(xlab.typeof(x))(x)
        >>> float(square(3.0)), float(xlab.grad(square)(3.0))
        (9.0, 6.0)
    """

    in_avals: tuple
    out_aval: Any
    params: dict

    def __init__(self):
        for name in ("in_avals", "out_aval", "params"):
            if not hasattr(self, name):
                raise AttributeError(f"subclass __init__ should set `self.{name}`")
        self.in_avals_flat, self.in_tree = _tree.flatten(tuple(self.in_avals))
        self.out_avals_flat, self.out_tree = _tree.flatten(self.out_aval)
        self.__dict__.update(self.params)
        self._identity = (
            type(self),
            *self.in_avals_flat,
            self.in_tree,
            *self.out_avals_flat,
            self.out_tree,
            *sorted(self.params.items()),
        )

    # -- what a subclass says ------------------------------------------------------------------------------

    def expand(self, *args):
        """The results, in array operations. Every subclass has it."""
        raise NotImplementedError(f"subclass {type(self)} must implement `expand`")

    def vjp_fwd(self, nzs_in, /, *args):
        """Results and residuals; `nzs_in` says which operands are differentiated."""
        raise NotImplementedError(
            f"for grad support, subclass {type(self)} must implement `vjp_fwd`"
        )

    def vjp_bwd_retval(self, res, outgrad, /):
        """A tuple of the cotangents of the operands; None for zero."""
        raise NotImplementedError(
            f"for grad support, subclass {type(self)} must implement `vjp_bwd` or `vjp_bwd_retval`"
        )

    def vjp_bwd(self, res, outgrad, /, *arg_accums):
        """Adds the cotangents of the operands where they are collected, with `accum`."""
        given = self.vjp_bwd_retval(res, outgrad)
        if not isinstance(given, (tuple, list)) or len(given) != len(arg_accums):
            raise TypeError(
                f"vjp_bwd_retval of {self!r} has to return a tuple with a cotangent, or None, for each of its {len(arg_accums)} "
                f"operands, got {given!r}"
            )
        for accums, ct in zip(arg_accums, given):
            if ct is not None:
                leaves = _tree.leaves(ct, is_leaf=lambda x: x is None)
                for accum, leaf in zip(_tree.leaves(accums), leaves, strict=True):
                    accum.accum(leaf)

    def jvp(self, primals, tangents):
        """Results and their tangents."""
        raise NotImplementedError(f"for jvp support, subclass {type(self)} must implement `jvp`")

    def lin(self, nzs_in, *primals):
        """Results and the residuals that `linearized` takes."""
        raise NotImplementedError(
            f"for linearize support, subclass {type(self)} must implement `lin`"
        )

    def linearized(self, residuals, *tangents):
        """The tangents of the results, linear in those of the operands."""
        raise NotImplementedError(
            f"for linearize support, subclass {type(self)} must implement `linearized`"
        )

    def transpose(self, out_ct, *maybe_accums):
        """The transpose of a linear primitive: operands it is linear in are accumulators, the others values."""
        raise NotImplementedError(
            f"for transpose support, subclass {type(self)} must implement `transpose`"
        )

    def batch(self, axis_data, args, dims):
        """Results for many examples and the dimensions of these, given the dimensions of the operands."""
        out_dims = self.batch_dim_rule(axis_data, dims)
        return VmapOf(self, axis_data, dims, out_dims)(*args), out_dims

    def batch_dim_rule(self, axis_data, dims, /):
        """The dimensions along which results are mapped, where those of operands are `dims`: the implementation and rules are mapped as well."""
        raise NotImplementedError(
            f"for vmap support, subclass {type(self)} must implement `batch` or `batch_dim_rule`"
        )

    def check(self, *arg_tys) -> None:
        """Raises for types of operands that the primitive does not take."""
        for path, given, expected in zip(
            _tree.flatten_with_path(self.in_avals)[0], _tree.leaves(arg_tys), self.in_avals_flat
        ):
            high = is_high(given) or is_high(expected)
            if (
                given != expected
                if high
                else (given.shape, given.dtype) != (expected.shape, expected.dtype)
            ):
                raise TypeError(
                    f"{self!r} was made for an operand{_tree.keystr(path[0])} of type {expected}, got {given}: make it for the types "
                    f"of its operands, as with typeof"
                )

    # -- what programs do with it --------------------------------------------------------------------------

    def __call__(self, *args):
        flat, structure = _tree.flatten(args)
        if structure != self.in_tree:
            raise TypeError(f"{self!r} takes operands {self.in_tree}, got {structure}")
        self.check(*_tree.map(aval_of, args))
        flat = tuple(map(as_value, flat))
        if state.manual is not None and any(
            map(is_high, (*self.in_avals_flat, *self.out_avals_flat))
        ):
            flat = vary_with_values(flat)
        outs = call_hi_primitive_p.bind(*flat, _prim=self)
        return _tree.unflatten(self.out_tree, outs)

    def __repr__(self):
        return f"{type(self).__name__}[{self.params}]"

    def __hash__(self):
        try:
            return hash(self._identity)
        except TypeError:  # a parameter without hash
            return id(self)

    def __eq__(self, other):
        return self is other or (type(self) is type(other) and self._identity == other._identity)

    # -- flat forms of the rules ---------------------------------------------------------------------------

    def has(self, *names: str) -> bool:
        """Whether the subclass defines one of these rules."""
        return any(getattr(type(self), n) is not getattr(VJPHiPrimitive, n) for n in names)

    def expand_flat(self, *flat) -> list:
        out = self.expand(*_tree.unflatten(self.in_tree, flat))
        leaves, structure = _tree.flatten(out)
        if structure != self.out_tree:
            raise TypeError(
                f"expand of {self!r} returns {structure}, but out_aval is {self.out_tree}"
            )
        return leaves

    def jvp_flat(self, primals: Sequence, tangents: Sequence) -> tuple[list, list]:
        un = lambda xs: _tree.unflatten(self.in_tree, xs)
        out, dots = self.jvp(un(primals), un(list(map(ad.instantiate_zeros, tangents))))
        return _tree.leaves(out), _tree.leaves(dots)

    def bwd_flat(self, structure, flat_res: Sequence, cts: Sequence) -> list:
        accums = [CotangentAccumulator(_ct_aval(a)) for a in self.in_avals_flat]
        res = _tree.unflatten(structure, flat_res)
        self.vjp_bwd(
            res, _tree.unflatten(self.out_tree, cts), *_tree.unflatten(self.in_tree, accums)
        )
        return [a.total for a in accums]


class VmapOf(VJPHiPrimitive):
    """A primitive mapped over an axis, with mapped rules."""

    def __init__(self, prim: VJPHiPrimitive, axis: AxisData, in_dims, out_dims):
        dims = _dims(in_dims, prim.in_avals), _dims(out_dims, prim.out_aval)
        added = lambda aval, d: aval if d is None else aval.with_dimension(d, axis.size)
        self.in_avals = _tree.unflatten(prim.in_tree, list(map(added, prim.in_avals_flat, dims[0])))
        self.out_aval = _tree.unflatten(
            prim.out_tree, list(map(added, prim.out_avals_flat, dims[1]))
        )
        self.params = {
            "prim": prim,
            "axis": axis,
            "in_dims": tuple(dims[0]),
            "out_dims": tuple(dims[1]),
        }
        super().__init__()

    def mapped(self, fun: Callable, in_axes, out_axes):
        name = self.axis.name
        named = {} if name is None or type(name) is object else {"axis_name": name}
        return vmap(fun, in_axes=in_axes, out_axes=out_axes, axis_size=self.axis.size, **named)

    @property
    def trees(self):
        return (
            _tree.unflatten(self.in_tree, self.in_dims),
            _tree.unflatten(self.out_tree, self.out_dims),
        )

    def has(self, *names):
        return self.prim.has(*names)

    def expand(self, *args):
        if not any(map(is_high, self.prim.in_avals_flat)):
            return self.mapped(self.prim.expand, *self.trees)(*args)
        # The definition is given values, and not what stands for them: the arrays are mapped.
        types = self.prim.in_avals_flat
        whole = zip(types, self.in_avals_flat, _tree.leaves(args))
        arrays = [p for t, a, x in whole for p in (a.lower_val(x) if is_high(t) else [x])]
        dims = [d for t, d in zip(types, self.in_dims) for _ in t.lo_ty()]

        def one(*arrays):
            rest = iter(arrays)
            values = [t.raise_val(*(next(rest) for _ in t.lo_ty())) for t in types]
            return self.prim.expand(*_tree.unflatten(self.prim.in_tree, values))

        return self.mapped(one, tuple(dims), self.trees[1])(*arrays)

    def vjp_fwd(self, nzs_in, /, *args):
        ins, outs = self.trees
        return self.mapped(lambda *a: self.prim.vjp_fwd(nzs_in, *a), ins, (outs, 0))(*args)

    def vjp_bwd_retval(self, res, outgrad, /):
        structure = _tree.structure(res)

        def back(res, *cts):
            given = self.prim.bwd_flat(structure, _tree.leaves(res), cts)
            return [
                ad.zeros_like_aval(_ct_aval(a)) if ct is None else ct
                for ct, a in zip(given, self.prim.in_avals_flat)
            ]

        cts = self.mapped(back, (0, *self.out_dims), 0)(res, *_tree.leaves(outgrad))
        # An operand that is the same for all examples gets the sum.
        moved = [
            batching.sum_batch_dim(ct, 0) if d is None else batching.moveaxis(ct, 0, d)
            for ct, d in zip(cts, self.in_dims)
        ]
        return _tree.unflatten(self.in_tree, moved)

    def jvp(self, primals, tangents):
        ins, outs = self.trees
        return self.mapped(self.prim.jvp, (ins, ins), (outs, outs))(primals, tangents)

    def lin(self, nzs_in, *primals):
        ins, outs = self.trees
        return self.mapped(lambda *a: self.prim.lin(nzs_in, *a), ins, (outs, 0))(*primals)

    def linearized(self, residuals, *tangents):
        ins, outs = self.trees
        return self.mapped(lambda r, *t: self.prim.linearized(r, *t), (0, *ins), outs)(
            residuals, *tangents
        )

    def batch_dim_rule(self, axis_data, dims, /):
        return _tree.unflatten(self.out_tree, [0] * len(self.out_avals_flat))

    def batch(self, axis_data, args, dims):
        args = [
            batching.bdim_at_front(x, d, axis_data.size)
            for x, d in zip(_tree.leaves(args), _dims(dims, self.in_avals))
        ]
        front = _tree.unflatten(self.in_tree, [0] * len(args))
        return super().batch(axis_data, _tree.unflatten(self.in_tree, args), front)


def _ct_aval(aval):
    """The type of cotangents of values of a type."""
    return aval.to_tangent_aval().to_ct_aval()


def _dims(dims, avals) -> list:
    """The dimension of each leaf, where `dims` is a prefix of the types' structure."""
    return _tree.broadcast_prefix(dims, avals, is_leaf=lambda x: x is None)


# -- the equation ------------------------------------------------------------------------------------------

call_hi_primitive_p = Primitive("call_hi_primitive", multiple_results=True, auto_pvary=False)
call_hi_primitive_p.takes_hi_types = True


@call_hi_primitive_p.def_abstract_eval
def _call_aval(*avals, _prim):
    outs = _prim.out_avals_flat
    return varying_types(avals, outs) if state.manual is not None else outs


call_hi_primitive_p.def_impl(lambda *args, _prim: _prim.expand_flat(*args))
mlir.register_text_lowering(
    call_hi_primitive_p, mlir.lower_fun(lambda *args, _prim: _prim.expand_flat(*args))
)


def _call_jvp(primals, tangents, *, _prim):
    nonzero = [type(t) is not Zero for t in tangents]
    recorded = any(is_tracer(t) for t in tangents)
    backwards = _prim.has("vjp_fwd")
    if _prim.has("jvp") and (not recorded or not backwards):
        return _prim.jvp_flat(primals, tangents)
    args = _tree.unflatten(_prim.in_tree, primals)
    nonzero = _tree.unflatten(_prim.in_tree, nonzero)
    if _prim.has("lin") and not backwards:
        out, res = _prim.lin(nonzero, *args)
        dots = _tree.unflatten(_prim.in_tree, list(map(ad.instantiate_zeros, tangents)))
        return _tree.leaves(out), _tree.leaves(_prim.linearized(res, *dots))
    if not recorded:  # forwards, for which there is no rule
        _prim.jvp(args, tangents)
    out, res = _prim.vjp_fwd(nonzero, *args)
    res, structure = _tree.flatten(res)
    dots = list(map(ad.instantiate_zeros, tangents))
    out_dots = hi_tangent_p.bind(
        *res,
        *primals,
        *dots,
        sizes=(len(res), len(primals)),
        rules=_Rules(_prim, structure),
        out_avals=tuple(a.to_tangent_aval() for a in _prim.out_avals_flat),
    )
    return _tree.leaves(out), out_dots


def _call_transpose(cts, *operands, _prim):
    if all(type(ct) is Zero for ct in cts):
        return [Zero(x.aval.to_ct_aval()) if ad.is_undefined_primal(x) else None for x in operands]
    accums = [
        CotangentAccumulator(x.aval.to_ct_aval()) if ad.is_undefined_primal(x) else x
        for x in operands
    ]
    cts = _tree.unflatten(_prim.out_tree, list(map(ad.instantiate_zeros, cts)))
    _prim.transpose(cts, *_tree.unflatten(_prim.in_tree, accums))
    return [
        (Zero(a.aval) if a.total is None else a.total) if type(a) is CotangentAccumulator else None
        for a in accums
    ]


def _call_batch(axis, operands, dims, *, _prim):
    un = lambda xs: _tree.unflatten(_prim.in_tree, xs)
    out, out_dims = _prim.batch(AxisData.of(axis), un(operands), un(dims))
    return _tree.leaves(out), _dims(out_dims, out)


lojax_rules[call_hi_primitive_p] = lambda *args, _prim: _prim.expand_flat(*args)
ad.primitive_jvps[call_hi_primitive_p] = _call_jvp
ad.primitive_transposes[call_hi_primitive_p] = _call_transpose
batching.axis_primitive_batchers[call_hi_primitive_p] = _call_batch


# -- the tangent of one with a backward rule ---------------------------------------------------------------


class _Rules(NamedTuple):
    """How tangents are evaluated and transposed."""

    prim: VJPHiPrimitive
    structure: Any  # of the residuals

    def forwards(self, primals, tangents):
        return self.prim.jvp_flat(primals, tangents)[1]

    def backwards(self, res, cts):
        return self.prim.bwd_flat(self.structure, res, cts)


class _MappedRules(NamedTuple):
    """Rules over an axis: everything but what is not mapped has it in front."""

    rules: Any
    axis: Any
    dims: tuple

    def forwards(self, primals, tangents):
        n = len(primals)
        dims = self.dims[-2 * n :]
        run = lambda *xs: self.rules.forwards(xs[:n], xs[n:])
        return vmap(run, in_axes=dims, axis_size=self.axis.size)(*primals, *tangents)

    def backwards(self, res, cts):
        n = len(res)

        def run(*xs):
            given = self.rules.backwards(xs[:n], xs[n:])
            kept[:] = [ct is not None for ct in given]
            return [ct for ct in given if ct is not None]

        kept: list[bool] = []
        dims = (*self.dims[:n], *[0] * len(cts))
        found = iter(vmap(run, in_axes=dims, axis_size=self.axis.size)(*res, *cts))
        return [next(found) if k else None for k in kept]


hi_tangent_p = Primitive(
    "hi_tangent", multiple_results=True, auto_pvary=False, context_dependent=True
)
hi_tangent_p.takes_hi_types = True
hi_tangent_p.def_abstract_eval(lambda *avals, out_avals, **_: out_avals)


def _tangent(*operands, sizes, rules, out_avals):
    n, k = sizes
    return rules.forwards(operands[n : n + k], operands[n + k :])


def _tangent_transpose(cts, *operands, sizes, rules, out_avals):
    n, k = sizes
    given = rules.backwards(operands[:n], [ad.instantiate_zeros(ct) for ct in cts])
    cts = [
        (Zero(t.aval.to_ct_aval()) if ct is None else ct) if ad.is_undefined_primal(t) else None
        for ct, t in zip(given, operands[n + k :])
    ]
    return [*[None] * (n + k), *cts]


def _tangent_batch(axis, operands, dims, *, sizes, rules, out_avals):
    n, k = sizes
    placed = [
        batching.bdim_at_front(x, d, axis.size) if d is not None or i >= n + k else x
        for i, (x, d) in enumerate(zip(operands, dims))
    ]
    mapped = tuple([0 if d is not None or i >= n + k else None for i, d in enumerate(dims)])
    outs = hi_tangent_p.bind(
        *placed,
        sizes=sizes,
        rules=_MappedRules(rules, axis, mapped),
        out_avals=tuple(a.with_dimension(0, axis.size) for a in out_avals),
    )
    return outs, [0] * len(outs)


hi_tangent_p.def_impl(_tangent)
lojax_rules[hi_tangent_p] = _tangent
mlir.register_text_lowering(hi_tangent_p, mlir.lower_fun(_tangent))
ad.primitive_jvps[hi_tangent_p] = lambda primals, tangents, **params: ad.jvp(
    lambda *xs: _tangent(*xs, **params), primals, tangents
)
ad.primitive_transposes[hi_tangent_p] = _tangent_transpose
batching.axis_primitive_batchers[hi_tangent_p] = _tangent_batch

for _p in (call_hi_primitive_p, hi_tangent_p):
    costs.cost_rules.excuse(
        _p, "it is replaced by the primitives it stands for before it is compiled"
    )
