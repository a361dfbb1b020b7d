"""`custom_jvp`: a function with its own forward derivative rule."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from xlab import tree as _tree
from xlab.compile.tracing import function_name
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.hi_types import is_high
from xlab.core.trace import state
from xlab.core.typed_numbers import typed_number
from xlab.errors import ManualAxisTypeError
from xlab.interpreters import ad
from xlab.lax.control.custom_jvp_call import custom_jvp_call_p
from xlab.transforms.arguments import check_callable, text_attributes

_RULES = ("def_vmap", "defjvp", "defjvps", "defvjp")
"""Methods that set a rule of a function, on any of the classes that give functions rules of their own."""


def inner_rule(self, name: str):
    """`__getattr__` of those classes: rules of another kind are set on the function inside, which has them too: `def_vmap` of a
    `custom_vmap`, for one."""
    if name in _RULES and "fun" in self.__dict__:
        return getattr(self.fun, name)
    raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class custom_jvp:
    """A function whose derivative is given by a rule instead of by differentiating its body.

    Args:
        fun: the function.
        nondiff_argnums: positions of Python-valued arguments, passed to the rule first.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> @xlab.custom_jvp
        ... def f(x):
        ...     return jnp.sin(x)
        >>> @f.defjvp
        ... def f_jvp(primals, tangents):
        ...     (x,), (t,) = primals, tangents
        ...     return f(x), 2 * t
        >>> float(xlab.grad(f)(0.0))
        2.0
    """

    def __init__(
        self,
        fun: Callable,
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ):
        check_callable(fun, "custom_jvp")
        functools.update_wrapper(self, fun, assigned=text_attributes(fun))
        self.fun = fun
        self.nondiff_argnums = tuple(sorted((*nondiff_argnums, *_named(fun, nondiff_argnames))))
        self.jvp: Callable | None = None
        self.symbolic_zeros = False

    __getattr__ = inner_rule

    def defjvp(self, jvp: Callable, symbolic_zeros: bool = False) -> Callable:
        """Sets the rule `(*nondiff, primals, tangents) -> (out, out_tangent)`."""
        self.jvp, self.symbolic_zeros = jvp, symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable | None) -> None:
        """Sets one rule per argument: `rule(tangent, out, *primals)`, or None for a zero derivative."""
        if self.nondiff_argnums:
            raise TypeError("defjvps does not go together with nondiff_argnums: use defjvp")

        def jvp(primals, tangents):
            out = self(*primals)
            total = None
            for rule, t in zip(jvps, tangents):
                if rule is not None:
                    part = rule(t, out, *primals)
                    total = part if total is None else _tree.map(ad.add_tangents, total, part)
            if total is None:
                total = _tree.map(lambda o: ad.instantiate_zeros(ad.Zero.of(o)), out)
            return out, total

        self.defjvp(jvp)

    def __call__(self, *args, **kwargs):
        name = function_name(self.fun)
        if self.jvp is None:
            raise AttributeError(f"No JVP defined for custom_jvp function {name} using defjvp.")
        args = resolve_kwargs(self.fun, args, kwargs)
        fixed = {i: args[i] for i in self.nondiff_argnums}
        fun = _with_fixed(self.fun, fixed, len(args))
        dynamic = tuple(a for i, a in enumerate(args) if i not in fixed)
        flat, in_tree = _tree.flatten(dynamic)
        out_tree = None

        def flat_fun(*leaves):
            nonlocal out_tree
            outs, out_tree = _tree.flatten(
                fun(*_tree.unflatten(in_tree, map(typed_number, leaves)))
            )
            return outs

        flat_fun.__name__ = name

        def flat_jvp(*values):
            nonlocal out_tree
            n = len(values) // 2
            primals, tangents = (
                _tree.unflatten(in_tree, map(typed_number, values[:n])),
                _tree.unflatten(in_tree, map(ad.SymbolicZero.as_leaf, values[n:])),
            )
            pair = self.jvp(*fixed.values(), primals, tangents)
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(
                    f"Custom JVP rule {function_name(self.jvp)} for function {name} must produce a pair (list or "
                    f"tuple of length two) representing primal and tangent outputs, got {pair!r}"
                )
            outs, tree = _tree.flatten(pair[0])
            touts, ttree = _tree.flatten(pair[1])
            if tree != ttree:
                raise TypeError(
                    f"Custom JVP rule {function_name(self.jvp)} for function {name} must produce primal and tangent "
                    f"outputs with equal container (pytree) structures, but got {tree} and {ttree} respectively."
                )
            out_tree = tree
            touts = [_check_tangent(o, t, name, self.jvp) for o, t in zip(outs, touts)]
            return [*outs, *touts]

        flat_jvp.__name__ = function_name(self.jvp)
        outs = state.trace.process_custom_jvp(
            custom_jvp_call_p,
            flat_fun,
            flat_jvp,
            flat,
            {"name": name, "num_consts": 0, "symbolic_zeros": self.symbolic_zeros},
        )
        return _tree.unflatten(out_tree, outs)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)


def _check_tangent(out, t, name, rule):
    want = aval_of(out).to_tangent_aval()
    if isinstance(t, ad.Zero):
        return ad.Zero(t.aval)
    if is_high(want) or is_high(aval_of(t)):
        if aval_of(t) != want:
            raise TypeError(
                f"Custom JVP rule {function_name(rule)} for function {name} must produce for a primal of type {aval_of(out)} a tangent of type {want}, "
                f"but got {aval_of(t)}"
            )
        return t
    if want.dtype == dtypes.float0:
        return ad.Zero(want)
    got = aval_of(t)
    if got.shape != want.shape or got.dtype != want.dtype:
        if got.weak_type and got.shape == want.shape and dtypes.issubdtype(got.dtype, np.inexact):
            from xlab.lax.convert import convert_element_type

            return convert_element_type(t, want.dtype)
        raise TypeError(
            f"Custom JVP rule {function_name(rule)} for function {name} must produce primal and tangent outputs with "
            f"corresponding shapes and dtypes, but got a primal of type {aval_of(out)} and a tangent of type {got}"
        )
    if state.manual is not None and got.mat != want.mat:
        raise ManualAxisTypeError(
            f"Custom JVP rule {function_name(rule)} for function {name} must produce primal and tangent outputs that vary over the same "
            f"mesh axes, but got a primal of type {aval_of(out)} and a tangent of type {got}: cast with lax.pcast(t, axis, to='varying') "
            f"what is the same on all devices"
        )
    return t


def _named(fun, names):
    if not names:
        return ()
    import inspect

    parameters = list(inspect.signature(fun).parameters)
    return tuple(parameters.index(n) for n in names)


def resolve_kwargs(fun: Callable, args, kwargs) -> tuple:
    """All arguments by position, with defaults filled in."""
    if not kwargs:
        try:
            import inspect

            bound = inspect.signature(fun).bind(*args)
        except (TypeError, ValueError):
            return tuple(args)
    else:
        import inspect

        bound = inspect.signature(fun).bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(
            f"keyword arguments could not be resolved to positions for {function_name(fun)}"
        )
    return bound.args


def _with_fixed(fun, fixed, n):
    if not fixed:
        return fun

    def chosen(*dynamic):
        rest = iter(dynamic)
        return fun(*(fixed[i] if i in fixed else next(rest) for i in range(n)))

    return chosen
