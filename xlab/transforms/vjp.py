"""Reverse mode: the value, and a function from cotangents of results to cotangents of arguments."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.compile.jit import jit
from xlab.compile.tracing import function_name
from xlab.config import idle_argument
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.hi_types import is_high
from xlab.core.jaxpr import ClosedJaxpr, eval_jaxpr
from xlab.core.refs import AbstractRef
from xlab.interpreters import ad
from xlab.interpreters import partial_eval as pe
from xlab.lax.device_put import in_memory
from xlab.transforms.arguments import (
    FlatFunction,
    as_array,
    canonical_argnums,
    check_callable,
    is_single,
    split_arguments,
)
from xlab.transforms.vjp_refs import with_refs


class Pullback:
    """What `vjp` returns: call it with cotangents shaped like the output, get a tuple of cotangents."""

    __slots__ = ("consts", "in_avals", "in_tree", "jaxpr", "name", "out_avals", "out_tree")

    def __init__(self, jaxpr, consts, in_tree, out_tree, in_avals, out_avals, name):
        self.jaxpr, self.consts = jaxpr, consts
        self.in_tree, self.out_tree, self.in_avals, self.out_avals, self.name = (
            in_tree,
            out_tree,
            in_avals,
            out_avals,
            name,
        )

    def __call__(self, cotangent):
        flat, tree = _tree.flatten(cotangent)
        if tree != self.out_tree:
            raise ValueError(
                f"the pullback of {self.name} takes cotangents with the structure of its output, "
                f"{self.out_tree}; got {tree}"
            )
        cts = []
        for ct, aval in zip(flat, self.out_avals):
            want = aval.to_tangent_aval().to_ct_aval()
            got = (
                ct.aval
                if type(ct) is ad.Zero
                else aval_of(ct)
                if getattr(ct, "dtype", None) != dtypes.float0
                else want
            )
            if is_high(want) or is_high(got):
                if got != want:
                    raise ValueError(
                        f"the pullback of {self.name} takes a cotangent of type {want} for an output of type {aval}, got {got}"
                    )
                cts.append(ct)
                continue
            if want.dtype == dtypes.float0 and got.shape == want.shape:
                cts.append(
                    ad.Zero(want)
                )  # nothing flows back through integers, whatever is given for them
                continue
            if got.shape != want.shape or got.dtype != want.dtype:
                raise ValueError(
                    f"the pullback of {self.name} takes a cotangent of type {want} for an output of type {aval}, "
                    f"got {got}"
                )
            if got.mat != want.mat:
                raise ValueError(
                    f"the pullback of {self.name} takes a cotangent of type {want}, got {got}: their manual axis "
                    f"types differ; use pcast or psum to change the cotangent's (reshard outside of shard_map)"
                )
            if got.memory_space != want.memory_space:
                if want.ndim:
                    raise ValueError(
                        f"the pullback of {self.name} takes a cotangent of type {want}, got {got}: bring it to the memory of the "
                        f"output with xlab.device_put(ct, xlab.memory.Space.Host), or Space.Device"
                    )
                ct = in_memory(ct, want)
            cts.append(ct)
        primals = [ad.UndefinedPrimal(v.aval) for v in self.jaxpr.invars]
        given = ad.backward_pass(self.jaxpr, self.consts, primals, cts)
        out = [_cotangent(ct, aval) for ct, aval in zip(given, self.in_avals)]
        return _tree.unflatten(self.in_tree, out)

    def with_refs(self, *wanted):
        """The pullback with cotangents added to references: per primal a reference, `ad.GradValue()` or `ad.DontWant()`.

        Example:
            >>> import xlab
            >>> _, pullback = xlab.vjp(lambda x, y: x * y, 2.0, 3.0)
            >>> total = xlab.new_ref(10.0)
            >>> pullback.with_refs(total, xlab.ad.DontWant())(1.0)
            (GradRef(), DidntWant())
            >>> float(total[...])
            13.0
        """
        return with_refs(self, wanted)

    def __repr__(self):
        return f"<pullback of {self.name}>"


_tree.register_pytree_node(
    Pullback,
    lambda p: (
        tuple(p.consts),
        (p.jaxpr, p.in_tree, p.out_tree, tuple(p.in_avals), tuple(p.out_avals), p.name),
    ),
    lambda aux, consts: Pullback(aux[0], consts, *aux[1:]),
)


def _cotangent(ct, aval):
    if is_high(aval) or is_high(ct.aval if type(ct) is ad.Zero else aval_of(ct)):
        return ad.instantiate_zeros(ct)
    if aval.to_tangent_aval().dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    if type(ct) is ad.Zero and type(aval) is AbstractRef:
        ct = ad.Zero(aval.inner_aval.to_tangent_aval())
    ct = as_array(ad.instantiate_zeros(ct))
    # A scalar, which went where the arrays were.
    return ct if aval_of(ct).memory_space == aval.memory_space else in_memory(ct, aval)


def vjp_of(fun: Callable, primals, *, has_aux: bool = False) -> tuple[Any, ...]:
    """Output (as nested by `fun`), pullback, and auxiliary data."""
    flat, in_tree = _tree.flatten(primals)
    flat_fun = FlatFunction(fun, in_tree, aux=has_aux)
    outs, _, jaxpr, consts = ad.linearize(flat_fun, flat, flat_fun.__name__)
    aux = _tree.map(_drop_tracers, flat_fun.aux_value) if has_aux else None
    pull = Pullback(
        jaxpr,
        consts,
        in_tree,
        flat_fun.out_tree,
        [aval_of(x) for x in flat],
        [aval_of(o) for o in outs],
        flat_fun.__name__,
    )
    return _tree.unflatten(flat_fun.out_tree, outs), pull, aux


def _drop_tracers(x):
    """Auxiliary values without their tangents."""
    while isinstance(x, ad.JVPTracer) and not x._trace.alive:
        x = x.primal
    return x


def vjp(
    fun: Callable, *primals: Any, has_aux: bool = False, reduce_axes: Sequence[Hashable] = ()
) -> tuple[Any, ...]:
    """Value of `fun` at the primals, and its pullback there.

    Returns:
        `(out, pullback)`, or `(out, pullback, aux)` with `has_aux`. `pullback(ct)` gives a tuple with one cotangent per
        primal.

    Args:
        fun: the function.
        primals: where to differentiate: its arguments.
        has_aux: whether the function returns a pair, of which the second is handed through.
        reduce_axes: has no effect.

    Example:
        >>> import xlab
        >>> y, pullback = xlab.vjp(lambda x: x * x, 3.0)
        >>> float(pullback(1.0)[0])
        6.0
    """
    idle_argument(
        "vjp", "reduce_axes", reduce_axes, "types say over which axes a derivative is summed"
    )
    check_callable(fun, "vjp")
    out, pull, aux = vjp_of(fun, primals, has_aux=has_aux)
    return (out, pull, aux) if has_aux else (out, pull)


def linearize(fun: Callable, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Value of `fun` at the primals, and its derivative there as a linear function of tangents.

    Args:
        fun: the function.
        primals: where to differentiate: its arguments.
        has_aux: whether the function returns a pair, of which the second is handed through.

    Example:
        >>> import xlab
        >>> y, push = xlab.linearize(lambda x: x ** 2, 3.0)
        >>> float(push(1.0))
        6.0
    """
    check_callable(fun, "linearize")
    flat, in_tree = _tree.flatten(primals)
    flat_fun = FlatFunction(fun, in_tree, aux=has_aux)
    outs, _, jaxpr, consts = ad.linearize(flat_fun, flat, flat_fun.__name__)
    jaxpr = pe.dce_jaxpr_eqns(jaxpr)
    out_tree = flat_fun.out_tree
    tangent_avals = [aval_of(x).to_tangent_aval() for x in flat]

    def push(*tangents):
        ts, tree = _tree.flatten(tangents)
        if tree != in_tree:
            raise ValueError(
                f"the linearized {flat_fun.__name__} takes tangents with the structure {in_tree}, got {tree}"
            )
        for t, want in zip(ts, tangent_avals):
            if is_high(want) and aval_of(t) == want:
                continue
            if is_high(want):
                raise ValueError(
                    f"the linearized {flat_fun.__name__} takes a tangent of type {want}, got {aval_of(t)}"
                )
            if want.dtype != dtypes.float0 and (aval_of(t).shape, aval_of(t).dtype) != (
                want.shape,
                want.dtype,
            ):
                raise ValueError(
                    f"the linearized {flat_fun.__name__} takes a tangent of type {want}, got {aval_of(t)}"
                )
        return _tree.unflatten(out_tree, list(map(as_array, eval_jaxpr(jaxpr, consts, *ts))))

    push.jaxpr = ClosedJaxpr(jaxpr, consts)
    out = _tree.unflatten(out_tree, outs)
    if has_aux:
        return out, push, _tree.map(_drop_tracers, flat_fun.aux_value)
    return out, push


def linear_transpose(
    fun: Callable, *primals: Any, reduce_axes: Sequence[Hashable] = ()
) -> Callable:
    """The transpose of a function that is linear in all its arguments; primals give only shapes and dtypes.

    Args:
        fun: a linear function, from floats or complex numbers to such, or from integers to integers.
        primals: arguments, of which shapes and dtypes alone count.
        reduce_axes: has no effect.

    Raises:
        TypeError: the function mixes integers or bools with floats.

    Example:
        >>> import xlab
        >>> transpose = xlab.linear_transpose(lambda x: 3 * x, 1.0)
        >>> float(transpose(2.0)[0])
        6.0
    """
    idle_argument(
        "linear_transpose",
        "reduce_axes",
        reduce_axes,
        "types say over which axes a derivative is summed",
    )
    check_callable(fun, "linear_transpose")
    flat, in_tree = _tree.flatten(primals)
    flat_fun = FlatFunction(fun, in_tree)
    avals = [aval_of(x) for x in flat]
    closed = pe.trace_to_closed_jaxpr(flat_fun, avals)
    out_avals, out_tree = closed.out_avals, flat_fun.out_tree
    # Calls and loops may mix linear values and others: only the linear part is transposed.
    known, linear, _, _ = pe.split_jaxpr(closed, [True] * len(avals), True)
    residuals = eval_jaxpr(known.jaxpr, known.consts)
    # Integers have no derivative, and a linear function from integers to integers its transpose.
    kinds = (np.inexact, np.integer)
    fits = [
        all(dtypes.issubdtype(a.dtype, kind) for a in (*avals, *out_avals) if hasattr(a, "dtype"))
        for kind in kinds
    ]
    if not any(fits):
        raise TypeError(
            f"linear_transpose takes functions from floats or complex numbers to such, or from integers to integers; "
            f"{function_name(fun)} maps {', '.join(map(str, avals))} to {', '.join(map(str, out_avals))}. Close over "
            f"the arguments of the other kind, or transpose the two parts apart."
        )
    whole = not fits[0]
    wanted = [a.dtype if whole else a.to_tangent_aval().dtype for a in out_avals]

    def transposed(cotangent):
        cts, tree = _tree.flatten(cotangent)
        if tree != out_tree:
            raise TypeError(
                f"the transpose of {function_name(fun)} takes cotangents with the structure of its output, "
                f"{out_tree}; got {tree}"
            )
        for ct, aval, dtype in zip(cts, out_avals, wanted):
            if (aval_of(ct).shape, aval_of(ct).dtype) != (aval.shape, dtype):
                raise TypeError(
                    f"the transpose of {function_name(fun)} takes a cotangent of type {dtypes.name(dtype)}{list(aval.shape)}, "
                    f"got {aval_of(ct)}"
                )
        inputs = [*residuals, *map(ad.UndefinedPrimal, avals)]
        given = ad.backward_pass(linear.jaxpr, linear.consts, inputs, cts)[len(residuals) :]
        return _tree.unflatten(in_tree, [ad.instantiate_zeros(ct) for ct in given])

    return transposed


def fwd_and_bwd(
    fun: Callable, argnums: int | Sequence[int], has_aux: bool = False, jitted: bool = True
) -> tuple[Callable, Callable]:
    """The two halves of reverse mode as functions: `fwd(*args)` and `bwd(residuals, cotangent)`.

    Args:
        argnums: which positional arguments to differentiate; an int gives one cotangent, a tuple gives a tuple.
        jitted: compile both halves.

    Returns:
        `(fwd, bwd)`; `fwd` returns `(out, residuals)`, or `(out, residuals, aux)` with `has_aux`.

    Example:
        >>> import xlab
        >>> fwd, bwd = xlab.fwd_and_bwd(lambda x, y: x * y, argnums=(0, 1))
        >>> out, residuals = fwd(3.0, 4.0)
        >>> [float(ct) for ct in bwd(residuals, 1.0)]
        [4.0, 3.0]
    """
    check_callable(fun, "fwd_and_bwd")

    def fwd(*args, **kwargs):
        nums = canonical_argnums(argnums, len(args), "fwd_and_bwd")
        part, chosen = split_arguments(fun, args, kwargs, nums)
        return vjp(part, *chosen, has_aux=has_aux)

    def bwd(residuals, cotangent):
        given = residuals(cotangent)
        return given[0] if is_single(argnums) else given

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)
