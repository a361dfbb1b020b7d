"""`HiPrimitive`: operations on values of hi types, with their rules as methods.

Also the two that go between such a value and its arrays, with which zeros, sums and batches of values are made where a type does not say how.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlab.core import effects as _effects
from xlab.core import hi_types as _hi
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.hi_states import is_mutable
from xlab.core.primitive import Primitive
from xlab.core.trace import Axis, state
from xlab.interpreters import ad, batching
from xlab.interpreters.ad import Zero
from xlab.sharding.current import get_abstract_mesh


class _AxisFields(NamedTuple):
    name: Any
    size: int
    spmd_name: Any = None
    explicit_mesh_axis: Any = None


class AxisData(_AxisFields):
    """What a batching rule is told of the mapped axis.

    `explicit_mesh_axis` names the Explicit mesh axes that its dimension is split over.
    """

    mesh: Any = None  # of these axes; no field, since rules take the four apart

    @classmethod
    def of(cls, axis: Axis) -> AxisData:
        mesh, names = axis.explicit_mesh_axes or (None, None)
        made = cls(axis.name, axis.size, axis.spmd or None, names)
        made.mesh = mesh
        return made

    def as_axis(self) -> Axis:
        """The axis for a function that is mapped over it."""
        names = self.explicit_mesh_axis
        over = names and (self.mesh or get_abstract_mesh(), names)
        return Axis(self.name, self.size, "vmap", explicit_mesh_axes=over)


class HiPrimitive(Primitive):
    """An operation on values of hi types, or one on arrays that keeps its name in programs until they are compiled.

    A subclass defines `abstract_eval` and `to_lojax`, and those rules that programs use: `jvp`, `transpose`, `batch`. With `multiple_results = True`
    in the class, results are sequences.

    Args:
        name: what it is called in programs.

    Example:
        >>> import xlab
        >>> from xlab.experimental.hijax import HiPrimitive
        >>> class Twice(HiPrimitive):
        ...     def abstract_eval(self, x):
        ...         return x, set()
        ...     def to_lojax(self, x):
        ...         return x + x
        ...     def jvp(self, primals, tangents):
        ...         return twice_p.bind(*primals), twice_p.bind(*tangents)
        ...     def transpose(self, ct, x):
        ...         return [twice_p.bind(ct)]
        >>> twice_p = Twice("twice")
        >>> float(xlab.grad(twice_p.bind)(3.0))
        2.0
        >>> print(xlab.make_jaxpr(twice_p.bind)(3.0))
        { lambda ; a:f32[]. let b:f32[] = twice a in (b,) }
    """

    __slots__ = ()

    def __init__(self, name: str):
        given = getattr(type(self), "multiple_results", False)
        super().__init__(
            name,
            multiple_results=given is True,
            auto_pvary=False,
            context_dependent=True,
            hidden=True,
        )
        self.takes_refs = True
        self.__dict__.pop("impl", None)  # a subclass may have a method of this name
        if not type(self).__module__.startswith("xlab."):
            _hi.in_use.types = True
        ad.primitive_jvps[self] = self._jvp
        ad.primitive_transposes[self] = self._transpose
        batching.axis_primitive_batchers[self] = self._batch

    # -- what a subclass says ------------------------------------------------------------------------------

    def is_high(self, *avals: Any, **params: Any) -> bool:
        """Whether it is replaced by `to_lojax` before a program is compiled: always."""
        return True

    def is_effectful(self, params: dict) -> bool:
        """Whether programs keep it although no result is used, beyond the effects that `abstract_eval` tells of."""
        return False

    def abstract_eval(self, *arg_avals: Any, **params: Any) -> tuple[Any, Any]:
        """The type of the result (or types of the results), and the effects, for operands of these types."""
        raise self._missing("abstract_eval", "the type of the result and the effects")

    def to_lojax(self, *args: Any, **params: Any) -> Any:
        """The result, computed with the values themselves: those of hi types with their arrays, which are traced while a program is compiled."""
        raise self._missing("to_lojax", "how it is computed")

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """The result and its tangent; a tangent that is zero comes as a `Zero`, unless all are."""
        raise self._missing("jvp", "the result and its tangent")

    def transpose(self, *args: Any, **params: Any) -> Any:
        """Given the cotangent of the result, then the operands: cotangents of those that are undefined primals, None for the others."""
        raise self._missing("transpose", "cotangents of its linear operands")

    def batch(self, axis_data: Any, args: Any, dims: Any, /, **params: Any) -> Any:
        """The result for many examples, and where these are in it, given where they are in the operands: a dimension, a `MappingSpec` or None.

        By default the operation is done for each example, and values of hi types are batched as their types say.
        """
        return batch_by_examples(self, axis_data, args, dims, params)

    def _missing(self, method: str, what: str) -> NotImplementedError:
        return NotImplementedError(
            f"primitive '{self.name}' needs the method `{method}` here ({what}): define it in the class {type(self).__name__}"
        )

    # -- what programs do with it --------------------------------------------------------------------------

    def bind(self, *args, **params):
        args = tuple(map(_hi.as_value, args))
        if state.manual is not None:
            avals = list(map(aval_of, args))
            high = any(map(_hi.is_high, avals)) or any(
                map(_hi.is_high, self._results(avals, params))
            )
            args = vary_with_values(args) if high else state.insert_pvary(self, args)
        return super().bind(*args, **params)

    def _results(self, avals, params) -> list:
        out, _ = self.abstract_eval(*avals, **params)
        return list(out) if self.multiple_results else [out]

    def impl(self, *args, **params):  # type: ignore[override]
        """Computes at once."""
        return self.to_lojax(*args, **params)

    has_abstract_eval = True

    def _evaluate(self, avals, params):
        out, effects = self.abstract_eval(*avals, **params)
        if self.is_effectful(params):
            effects = {*effects, HI_EFFECT}
        if state.manual is not None:
            outs = varying_types(avals, out if self.multiple_results else [out])
            out = outs if self.multiple_results else outs[0]
        return tuple(out) if self.multiple_results else out, frozenset(effects)

    def _jvp(self, primals, tangents, **params):
        if all(type(t) is Zero for t in tangents):
            out = self.bind(*primals, **params)
            return out, [Zero.of(o) for o in out] if self.multiple_results else Zero.of(out)
        return self.jvp(tuple(primals), tuple(tangents), **params)

    def _transpose(self, ct, *operands, **params):
        return self.transpose(ct, *operands, **params)

    def _batch(self, axis, operands, dims, **params):
        if all(d is None for d in dims):
            out = self.bind(*operands, **params)
            return out, [None] * len(out) if self.multiple_results else None
        return self.batch(AxisData.of(axis), tuple(operands), tuple(dims), **params)


# -- manual mesh axes --------------------------------------------------------------------------------------
# A hi type need not say over which axes its values vary from device to device: all of them are taken to vary over all.


def vary_with_values(args: Sequence) -> tuple:
    """Operands of an operation on values of hi types: arrays are cast to vary over all manual axes."""

    def cast(x):
        aval = aval_of(x)
        if not isinstance(aval, ShapedArray):
            return x
        missing = state.manual - aval.mat.varying - aval.mat.unreduced
        return state.vary(x, tuple(sorted(missing, key=str))) if missing else x

    return tuple(map(cast, args))


def varying_types(avals: Sequence, outs: Sequence) -> list:
    """The types of the results of such an operation; of one on arrays alone, the axes are those of the operands."""
    if any(map(_hi.is_high, (*avals, *outs))):
        axes = frozenset(state.manual)
    else:
        axes = frozenset().union(*(a.mat.varying for a in avals if isinstance(a, ShapedArray)))
    return [
        a.update(mat=a.mat.update(varying=a.mat.varying | axes))
        if isinstance(a, ShapedArray)
        else a
        for a in outs
    ]


class HiEffect(_effects.Effect):
    """An operation on values of hi types that programs keep although no result is used."""


HI_EFFECT = HiEffect()


# -- between a value and its arrays ------------------------------------------------------------------------


class _Lower(HiPrimitive):
    multiple_results = True

    def abstract_eval(self, aval):
        return aval.lo_ty(), set()

    def to_lojax(self, x):
        return aval_of(x).lower_val(x)

    def jvp(self, primals, tangents):
        _check_tangent(aval_of(primals[0]), "taken apart")
        return self.bind(*primals), self.bind(*tangents)

    def transpose(self, cts, x):
        return [raise_p.bind(*map(ad.instantiate_zeros, cts), ty=x.aval)]


class _Raise(HiPrimitive):
    def abstract_eval(self, *avals, ty):
        want = ty.lo_ty()
        if [(a.shape, a.dtype) for a in avals] != [(a.shape, a.dtype) for a in want]:
            raise TypeError(f"a value of type {ty} consists of arrays of types ({', '.join(map(str, want))}), got ({', '.join(map(str, avals))})")  # fmt: skip
        return ty, set()

    def to_lojax(self, *parts, ty):
        return ty.raise_val(*parts)

    def jvp(self, primals, tangents, *, ty):
        _check_tangent(ty, "made of its arrays")
        return self.bind(*primals, ty=ty), self.bind(*map(ad.instantiate_zeros, tangents), ty=ty)

    def transpose(self, ct, *parts, ty):
        return list(lower_p.bind(ct))


def _check_tangent(ty, how: str) -> None:
    if ty.to_tangent_aval() != ty:
        raise TypeError(
            f"a value of type {ty} is {how} where a derivative is taken, and its tangents have another type, {ty.to_tangent_aval()}: use an operation "
            f"with a rule of its own for that (a HiPrimitive)"
        )


lower_p, raise_p = _Lower("lower_hi"), _Raise("raise_hi")
_hi.set_operations(_hi.Operations(lower_p.bind, lambda ty, parts: raise_p.bind(*parts, ty=ty)))


# -- many examples -----------------------------------------------------------------------------------------


class _ByExamples(HiPrimitive):
    """An operation done for every example of a batch. Examples are in front of every array."""

    def __init__(self, prim: HiPrimitive, axis: AxisData, batched: tuple, params: dict):
        self.prim, self.axis, self.batched, self.params = prim, axis, batched, params
        super().__init__(f"{prim.name}_batch")
        self.multiple_results = prim.multiple_results

    def abstract_eval(self, *avals):
        examples = [_example(a, b) for a, b in zip(avals, self.batched)]
        out, effects = self.prim.abstract_eval(*examples, **self.params)
        whole = lambda a: a.with_dimension(0, self.axis.size)
        return [whole(a) for a in out] if self.multiple_results else whole(out), effects

    def mapped(self, fun: Callable, batched: Sequence[bool], *args: Any) -> list:
        """Results of a flat function for all examples, in front."""
        size = self.axis.size
        run, dims = batching.batch_flat(
            fun, self.axis.as_axis(), [0 if b else None for b in batched]
        )
        outs = run(*args)
        return [
            x if type(x) is Zero else batching.bdim_at_front(x, d, size)
            for x, d in zip(outs, dims.get(len(outs)))
        ]

    def flat(self, outs: Any) -> list:
        return list(outs) if self.multiple_results else [outs]

    def unflat(self, outs: list) -> Any:
        return outs if self.multiple_results else outs[0]

    def to_lojax(self, *args):
        avals = list(map(aval_of, args))
        types = [_example(a, b) for a, b in zip(avals, self.batched)]
        batched = [b for a, b in zip(avals, self.batched) for _ in a.lo_ty()]
        made: list = []

        def one(*arrays):
            rest = iter(arrays)
            values = [a.raise_val(*(next(rest) for _ in a.lo_ty())) for a in types]
            outs = self.flat(self.prim.to_lojax(*values, **self.params))
            made[:] = list(map(aval_of, outs))
            return [
                p for a, x in zip(made, outs) for p in (_hi.lower(x, a) if _hi.is_high(a) else [x])
            ]

        rest = iter(
            self.mapped(one, batched, *(p for a, x in zip(avals, args) for p in a.lower_val(x)))
        )
        wholes = [a.with_dimension(0, self.axis.size) for a in made]
        return self.unflat([a.raise_val(*(next(rest) for _ in a.lo_ty())) for a in wholes])

    def jvp(self, primals, tangents):
        n = len(primals)
        zero = [type(t) is Zero for t in tangents]

        def one(*values):
            rest = iter(values[n:])
            dots = [Zero.of(x) if z else next(rest) for x, z in zip(values, zero)]
            outs, out_dots = self.prim.jvp(values[:n], tuple(dots), **self.params)
            return [*self.flat(outs), *map(ad.instantiate_zeros, self.flat(out_dots))]

        given = [t for t, z in zip(tangents, zero) if not z]
        flags = [*self.batched, *(b for b, z in zip(self.batched, zero) if not z)]
        outs = self.mapped(one, flags, *primals, *given)
        k = len(outs) // 2
        return self.unflat(outs[:k]), self.unflat(outs[k:])

    def transpose(self, cts, *operands):
        linear = [ad.is_undefined_primal(x) for x in operands]
        avals = [
            _example(x.aval, b) if lin else None
            for x, b, lin in zip(operands, self.batched, linear)
        ]
        cts = list(map(ad.instantiate_zeros, self.flat(cts)))
        there: list = []

        def one(*values):
            rest = iter(values[len(cts) :])
            args = [ad.UndefinedPrimal(a) if lin else next(rest) for a, lin in zip(avals, linear)]
            given = self.prim.transpose(self.unflat(list(values[: len(cts)])), *args, **self.params)
            there[:] = [ct is not None and type(ct) is not Zero for ct in given]
            return [ct for ct, t in zip(given, there) if t]

        known = [x for x, lin in zip(operands, linear) if not lin]
        flags = [*[True] * len(cts), *(b for b, lin in zip(self.batched, linear) if not lin)]
        rest = iter(self.mapped(one, flags, *cts, *known))
        found = [next(rest) if t else None for t in there]
        # An operand that is the same for all examples gets the sum.
        return [ct if ct is None or b else _sum(ct) for ct, b in zip(found, self.batched)]


def _example(aval, batched: bool):
    if not batched:
        return aval
    return (
        aval.without_dimension(0)
        if not isinstance(aval, _hi.HiType)
        else aval.dec_rank(None, aval.leading_axis_spec())
    )


def _sum(ct):
    """The sum over the examples of a cotangent."""
    aval = aval_of(ct)
    if not _hi.is_high(aval):
        return batching.sum_batch_dim(ct, 0)
    one = _example(aval, True)
    return _hi.raise_value(one, [batching.sum_batch_dim(p, 0) for p in _hi.lower(ct, aval)])


def batch_by_examples(
    prim: HiPrimitive, axis: AxisData, args: Sequence, dims: Sequence, params: dict
) -> tuple:
    """The batching rule of an operation that has none of its own."""
    if any(map(is_mutable, args)):
        raise NotImplementedError(
            f"vmap of '{prim.name}', which takes a value that changes in place, together with values that differ between examples: what would the value "
            f"be afterwards? Define its `batch` in the class {type(prim).__name__}"
        )
    args = [x if d is None else batching.moveaxis(x, d, 0) for x, d in zip(args, dims)]
    mapped = _ByExamples(prim, axis, tuple(d is not None for d in dims), params)
    out = mapped.bind(*args)
    outs = out if prim.multiple_results else [out]
    where = [a.leading_axis_spec() for a in map(aval_of, outs)]
    return (outs, where) if prim.multiple_results else (out, where[0])
