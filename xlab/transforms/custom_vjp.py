"""`custom_vjp`: a function with its own reverse derivative rule."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from xlab import tree as _tree
from xlab.compile.jit import hoisted
from xlab.compile.ref_discharge import check_arguments, check_refs
from xlab.compile.tracing import argument_names, function_name
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.hi_states import typed
from xlab.core.hi_types import is_high
from xlab.core.jaxpr import DebugInfo
from xlab.core.primitive import Primitive
from xlab.core.refs import is_ref
from xlab.core.trace import state
from xlab.core.typed_numbers import typed_number
from xlab.errors import ManualAxisTypeError
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.control_flow import CallFlow, control_flow_rules
from xlab.interpreters.discharge import discharge_rules, inline
from xlab.lax.control.custom_jvp_call import CustomCall
from xlab.transforms.arguments import check_callable, text_attributes
from xlab.transforms.custom_jvp import _named, _with_fixed, inner_rule, resolve_kwargs
from xlab.transforms.remat_opt import optimized


class _CustomVJPCall(CustomCall):
    __slots__ = ()
    rules = ("fwd", "bwd")

    def bind(self, *args, **params):
        """Applies a recorded call again."""
        functions, params = self.split_params(params)
        return state.trace.process_custom_vjp(self, *functions, self.operands(args), params)

    def stage(self, trace, fun, fwd, bwd, args, params):
        """Records the call as one equation."""
        closed = pe.trace_to_closed_jaxpr(fun, [typed(x) for x in args], DebugInfo(params["name"]))
        consts, closed = hoisted(closed)
        check_refs(closed, args, (*closed.consts, *consts), params["name"])
        invars = [trace.atom(x) for x in (*consts, *args)]
        n = len(consts)
        return trace.record(
            self,
            invars,
            {
                "call_jaxpr": closed,
                "fwd": _Forward(fwd, n, params["symbolic_zeros"]),
                "bwd": _Backward(bwd, n),
                "name": params["name"],
                "num_consts": n + params["num_consts"],
                "symbolic_zeros": params["symbolic_zeros"],
            },
            closed.out_avals,
            closed.effects,
        )

    def linear_part(self, fwd, bwd, primals, tangents, params):
        """Runs the forward rule; the tangents go through one equation that only transposition understands."""
        n = params["num_consts"]
        if any(type(t) is not ad.Zero for t in tangents[:n]):
            from xlab.interpreters.ad.jvp import closed_over

            raise closed_over(params)
        symbolic = params["symbolic_zeros"]
        outs = (
            fwd(*primals, *(type(t) is not ad.Zero for t in tangents))
            if symbolic
            else fwd(*primals)
        )
        results, residuals = outs[: bwd.n_outputs], outs[bwd.n_outputs :]
        dots = [ad.instantiate_zeros(t) for t in tangents]
        out_avals = tuple(aval_of(o).to_tangent_aval() for o in results)
        out_tangents = custom_lin_p.bind(
            *residuals,
            *dots,
            num_res=len(residuals),
            bwd=bwd,
            out_avals=out_avals,
            name=params["name"],
            symbolic_zeros=symbolic,
        )
        return results, out_tangents


class _Forward:
    """The forward rule as a parameter: skips the operands that tracing added in front."""

    __slots__ = ("__name__", "flags", "rule", "skip")

    def __init__(self, rule, skip, flags):
        self.rule, self.skip, self.flags, self.__name__ = (
            rule,
            skip,
            flags,
            getattr(rule, "__name__", "fwd"),
        )

    def __call__(self, *args):
        n = len(args) // 2 if self.flags else len(args)
        return self.rule(*args[self.skip : n], *args[n + self.skip :])


class _Backward:
    """The backward rule as a parameter: no cotangents for the operands that tracing added in front."""

    __slots__ = ("__name__", "rule", "skip")

    def __init__(self, rule, skip):
        self.rule, self.skip, self.__name__ = rule, skip, getattr(rule, "__name__", "bwd")

    @property
    def n_outputs(self):
        return self.rule.n_outputs

    def __call__(self, *args):
        return [None] * self.skip + list(self.rule(*args))


custom_vjp_call_p = _CustomVJPCall(
    "custom_vjp_call", multiple_results=True, auto_pvary=False, context_dependent=True
)
custom_vjp_call_p.takes_refs = True
control_flow_rules[custom_vjp_call_p] = lambda params: CallFlow(params["call_jaxpr"])
discharge_rules[custom_vjp_call_p] = inline("call_jaxpr")
custom_vjp_call_p.def_effectful_abstract_eval(
    lambda *avals, call_jaxpr, **_: (call_jaxpr.out_avals, call_jaxpr.effects)
)
ad.primitive_jvps.excuse(custom_vjp_call_p, "its own rule is called instead")
batching.primitive_batchers.excuse(
    custom_vjp_call_p, "the function and its rules are batched together"
)
mlir.register_text_lowering(
    custom_vjp_call_p, lambda ctx, *args, call_jaxpr, **_: ctx.jaxpr(call_jaxpr, args)
)


def _forward_mode(*_, name="a function", **__):
    raise TypeError(
        f"can't apply forward-mode differentiation (jvp) to a custom_vjp function: {name} has only a reverse "
        f"rule. Use grad or vjp, or define the function with custom_jvp."
    )


# The tangent of a custom_vjp function: known only by its transpose.
# Not to be kept by its parameters: they would keep the rules, and what those close over.
custom_lin_p = Primitive(
    "custom_lin", multiple_results=True, auto_pvary=False, context_dependent=True
)
custom_lin_p.takes_refs = True
custom_lin_p.transposes_zeros = (
    True  # a rule may answer zeros with anything, such as the state it hands out as a gradient
)
custom_lin_p.def_abstract_eval(lambda *avals, out_avals, **_: out_avals)
custom_lin_p.def_impl(_forward_mode)
ad.primitive_jvps[custom_lin_p] = lambda primals, tangents, **params: _forward_mode(**params)
mlir.register_text_lowering(custom_lin_p, lambda ctx, *args, **params: _forward_mode(**params))


def _lin_transpose(cts, *operands, num_res, bwd, out_avals, name, symbolic_zeros):
    residuals, tangents = operands[:num_res], operands[num_res:]
    if not symbolic_zeros:
        cts = [ad.instantiate_zeros(ct) for ct in cts]
    given = bwd(*residuals, *cts)
    out = []
    for ct, t in zip(given, tangents):
        out.append(ct if ad.is_undefined_primal(t) else None)
    return [*[None] * num_res, *out]


def _lin_batch(axis, operands, dims, *, num_res, bwd, out_avals, name, symbolic_zeros):
    res_dims, in_dims = dims[:num_res], dims[num_res:]
    tangents = [
        batching.move_batch_dim_to(t, d, axis.size, 0) for t, d in zip(operands[num_res:], in_dims)
    ]
    n_out = len(out_avals)

    def batched_bwd(*args):
        run, out_dims = batching.batch_flat(
            lambda *a: [ad.instantiate_zeros(x) for x in bwd(*a)], axis, [*res_dims, *[0] * n_out]
        )
        outs = run(*args)
        return [batching.move_batch_dim_to(x, d, axis.size, 0) for x, d in zip(outs, out_dims.dims)]

    batched_bwd.n_outputs = n_out
    avals = tuple(a.update(shape=(axis.size, *a.shape)) for a in out_avals)
    outs = custom_lin_p.bind(
        *operands[:num_res],
        *tangents,
        num_res=num_res,
        bwd=batched_bwd,
        out_avals=avals,
        name=name,
        symbolic_zeros=symbolic_zeros,
    )
    return outs, [0] * n_out


ad.primitive_transposes[custom_lin_p] = _lin_transpose
batching.axis_primitive_batchers[custom_lin_p] = _lin_batch


class CustomVJPPrimal:
    """An argument of a forward rule that asked for symbolic zeros: its value, and whether it is being differentiated."""

    __slots__ = ("perturbed", "value")

    def __init__(self, value, perturbed: bool):
        self.value, self.perturbed = value, perturbed

    def __repr__(self):
        return f"CustomVJPPrimal(value={self.value!r}, perturbed={self.perturbed!r})"


def custom_vjp_primal_tree_values(tree):
    """The values in a pytree of `CustomVJPPrimal`.

    Example:
        >>> custom_vjp_primal_tree_values({"a": CustomVJPPrimal(1.0, True)})
        {'a': 1.0}
    """

    def value(leaf):
        if type(leaf) is not CustomVJPPrimal:
            raise TypeError(
                f"unexpected leaf type {type(leaf)}: custom_vjp_primal_tree_values takes the arguments of a forward "
                f"rule that was set with symbolic_zeros=True"
            )
        return leaf.value

    return _tree.map(value, tree)


def zero_from_primal(val, symbolic_zeros: bool = False):
    """The zero tangent for a value: an array, or a `SymbolicZero` that costs nothing.

    Example:
        >>> zero_from_primal(3.0, symbolic_zeros=True)
        SymbolicZero(~float32[])
    """

    def zero(leaf):
        made = ad.SymbolicZero.of(leaf)
        return made if symbolic_zeros else ad.instantiate_zeros(made)

    return _tree.map(zero, val)


class custom_vjp:
    """A function whose reverse-mode derivative is given by a pair of rules.

    Args:
        fun: the function.
        nondiff_argnums: positions of Python-valued arguments, passed to `bwd` first.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> @xlab.custom_vjp
        ... def f(x):
        ...     return jnp.sin(x)
        >>> f.defvjp(lambda x: (f(x), x), lambda x, ct: (3 * ct,))
        >>> float(xlab.grad(f)(0.0))
        3.0
    """

    def __init__(
        self,
        fun: Callable,
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ):
        check_callable(fun, "custom_vjp")
        functools.update_wrapper(self, fun, assigned=text_attributes(fun))
        self.fun = fun
        self.nondiff_argnums = tuple(sorted((*nondiff_argnums, *_named(fun, nondiff_argnames))))
        self.fwd: Callable | None = None
        self.bwd: Callable | None = None
        self.symbolic_zeros = self.optimize_remat = False

    __getattr__ = inner_rule

    def defvjp(
        self,
        fwd: Callable,
        bwd: Callable,
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Sets the rules.

        Args:
            fwd: takes the function's arguments, returns `(out, residuals)`.
            bwd: takes `(*nondiff, residuals, ct)`, returns a tuple with a cotangent (or None) per argument.
            symbolic_zeros: `fwd` gets `CustomVJPPrimal`s, which say what is differentiated, and `bwd` may get `SymbolicZero`s.
            optimize_remat: under `checkpoint`, run the function instead of `fwd` where the residuals are not needed.
        """
        self.fwd, self.bwd, self.symbolic_zeros, self.optimize_remat = (
            fwd,
            bwd,
            symbolic_zeros,
            optimize_remat,
        )

    def __call__(self, *args, **kwargs):
        name = function_name(self.fun)
        if self.fwd is None or self.bwd is None:
            raise AttributeError(f"No VJP defined for custom_vjp function {name} using defvjp.")
        args = resolve_kwargs(self.fun, args, kwargs)
        fixed = {i: args[i] for i in self.nondiff_argnums}
        fun, fwd = _with_fixed(self.fun, fixed, len(args)), _with_fixed(self.fwd, fixed, len(args))
        dynamic = tuple(a for i, a in enumerate(args) if i not in fixed)
        flat, in_tree = _tree.flatten(dynamic)
        if any(map(is_ref, flat)):
            check_arguments(
                name,
                flat,
                lambda: argument_names(
                    self.fun, _tree.structure((dynamic, {})), len(flat), self.nondiff_argnums
                ),
            )
        trees: dict = {}

        def flat_fun(*leaves):
            outs, trees["out"] = _tree.flatten(
                fun(*_tree.unflatten(in_tree, map(typed_number, leaves)))
            )
            if any(map(is_ref, outs)):
                raise ValueError(
                    f"custom_vjp primal function {name} returned a mutable array reference: a reference is a place that the caller "
                    f"has already. Return its value, ref[...]"
                )
            trees["n"] = len(outs)
            return outs

        def flat_fwd(*leaves):
            n = len(flat)
            given, perturbed = list(map(typed_number, leaves[:n])), leaves[n:]
            leaves = list(map(CustomVJPPrimal, given, perturbed)) if self.symbolic_zeros else given
            pair = fwd(*_tree.unflatten(in_tree, leaves))
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(
                    f"Custom VJP fwd rule {function_name(self.fwd)} for function {name} must produce a pair (list or "
                    f"tuple of length two) where the first element represents the primal output and the second "
                    f"element represents residuals, got {pair!r}"
                )
            outs, trees["out"] = _tree.flatten(pair[0])
            residuals, trees["res"] = _tree.flatten(pair[1])
            trees["n"] = len(outs)
            return [*outs, *residuals]

        flat_bwd = _FlatBackward(self.bwd, fixed, trees, in_tree, [aval_of(x) for x in flat], name)
        flat_fun.__name__, flat_fwd.__name__ = name, function_name(self.fwd)
        if self.optimize_remat:
            flat_fwd = optimized(flat_fun, flat_fwd, lambda: trees["n"], self.symbolic_zeros)
        outs = state.trace.process_custom_vjp(
            custom_vjp_call_p,
            flat_fun,
            flat_fwd,
            flat_bwd,
            flat,
            {"name": name, "num_consts": 0, "symbolic_zeros": self.symbolic_zeros},
        )
        return _tree.unflatten(trees["out"], outs)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)


class _FlatBackward:
    """The user's backward rule on leaves; checks what it returns."""

    def __init__(self, bwd, fixed, trees, in_tree, avals, name):
        self.bwd, self.fixed, self.trees, self.in_tree, self.avals, self.name = (
            bwd,
            fixed,
            trees,
            in_tree,
            avals,
            name,
        )
        self.__name__ = function_name(bwd)

    @property
    def n_outputs(self) -> int:
        return self.trees["n"]

    def out_trees(self):
        """The structures of the results and of the residuals, once the forward rule was called."""
        return self.trees["out"], self.trees["res"]

    def __call__(self, *args):
        n_res = len(args) - self.n_outputs
        residuals = _tree.unflatten(self.trees["res"], args[:n_res])
        cts = _tree.unflatten(self.trees["out"], map(ad.SymbolicZero.as_leaf, args[n_res:]))
        given = self.bwd(*self.fixed.values(), residuals, cts)
        rule = f"Custom VJP bwd rule {function_name(self.bwd)} for function {self.name}"
        if isinstance(given, list):
            given = tuple(given)
        children = _tree.unflatten(self.in_tree, list(range(len(self.avals))))
        if not isinstance(given, tuple) or len(given) != len(children):
            raise TypeError(
                f"{rule} must produce a tuple with one cotangent per argument ({len(children)}), got {given!r}"
            )
        out: list = [None] * len(self.avals)
        for child, ct in zip(children, given):
            # None stands for a whole part without cotangents.
            leaves, structure = _tree.flatten(ct, is_leaf=lambda x: x is None or type(x) is ad.Zero)
            try:
                parts = structure.flatten_up_to(child)
            except (ValueError, TypeError, KeyError):
                raise TypeError(
                    f"{rule} must produce cotangents with the structure of the arguments, {_tree.structure(child)}, or a prefix of "
                    f"it, got {_tree.structure(ct)}"
                ) from None
            for part, leaf in zip(parts, leaves):
                for i in (
                    _tree.leaves(part) if leaf is not None else ()
                ):  # one array serves all arguments below it
                    out[i] = self._checked(leaf, self.avals[i], rule)
        return out

    def _checked(self, ct, aval, rule):
        want = aval.to_tangent_aval()
        if (
            ct is not None
            and not isinstance(ct, ad.Zero)
            and (is_high(want) or is_high(aval_of(ct)))
        ):
            if aval_of(ct) != want:
                raise TypeError(
                    f"{rule} must produce a cotangent of type {want} for an argument of type {aval}, but gave {aval_of(ct)}"
                )
            return ct
        if ct is None or isinstance(ct, ad.Zero) or want.dtype == dtypes.float0:
            return None
        got = aval_of(ct)
        if got.shape != want.shape:
            raise ValueError(
                f"{rule} must produce cotangents with the shapes of the arguments, but gave {got} for an argument of "
                f"type {aval}"
            )
        if state.manual is not None and got.mat != want.to_ct_aval().mat:
            raise ManualAxisTypeError(
                f"{rule} must produce cotangents that vary over mesh axes as their arguments do, but gave {got} for an argument of type "
                f"{aval}, whose cotangent is of type {want.to_ct_aval()}: use lax.pcast(ct, axis, to='varying') for a value that is the "
                f"same on all devices, lax.psum(ct, axis) for parts of a sum"
            )
        if got.dtype != want.dtype:
            from xlab.lax.convert import convert_element_type

            return convert_element_type(ct, want.dtype)
        return ct


costs.cost_rules.excuse(
    custom_lin_p, "it stands for a backward pass that is not made yet, and never runs"
)
