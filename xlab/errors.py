"""Error classes: what went wrong, why, and what to try. Each docstring explains the mistake.

Ground floor, standard library only. Every class derives from the builtin a user would catch and
from `XlabError`, so `except xlab.errors.XlabError` catches everything the runtime diagnoses itself. `JaxRuntimeError`, what
native code raises, is added here by `backend`, which may name it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

__all__ = [
    "BatchSizeError",
    "CollectiveTimeoutError",
    "ComplexOperandError",
    "ConcretizationTypeError",
    "DivergenceError",
    "DivergenceWarning",
    "ForbiddenMapError",
    "HiTypeError",
    "IncompatibleDevices",
    "InconclusiveDimensionOperation",
    "IndivisibleError",
    "InvalidInputException",
    "JAXIndexError",
    "JAXTypeError",
    "JaxprTypeError",
    "KeyReuseError",
    "LeakedTracerError",
    "ManualAxisTypeError",
    "MissingRule",
    "NonConcreteBooleanIndexError",
    "PendingAttributeError",
    "PendingValueError",
    "PendingValueWarning",
    "ProcessFailed",
    "ProcessLost",
    "ProcessesApart",
    "ProcessesLate",
    "RefOperandError",
    "ShardingTypeError",
    "TokenError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "UnexpectedTracerError",
    "UnsupportedVersionError",
    "XlabError",
    "XlabIndexError",
    "XlabTypeError",
]


def __dir__() -> list[str]:
    return [*__all__, "JaxRuntimeError", "XlabRuntimeError"]


class XlabError(Exception):
    """Mixin of every error the runtime raises on purpose."""


class XlabTypeError(XlabError, TypeError):
    """Base of the type errors raised while tracing."""


class XlabIndexError(XlabError, IndexError):
    """Base of the index errors raised while tracing."""


JAXTypeError = XlabTypeError
JAXIndexError = XlabIndexError


class ConcretizationTypeError(XlabTypeError):
    """A traced value was used where its number is needed while tracing.

    Inside `jit`, `grad`, `vmap` or `scan` an argument is a *tracer*: its shape and dtype are known, its
    value is not. Mistake::

        @xlab.jit
        def f(x, n):
            return jnp.zeros(n) + x          # the shape needs the value of n

    Fix: make the argument static (`jit(f, static_argnums=1)`), compute the size from `x.shape`, or move
    the decision out of the transformed function.
    """


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced value was used in `if`, `while`, `and`, `or`, `not` or `bool(...)`.

    Fix: `jnp.where(c, a, b)` to choose between values, `lax.cond` to choose between computations,
    `lax.while_loop` or `lax.fori_loop` to repeat, or mark the argument static.
    """


class TracerArrayConversionError(XlabTypeError):
    """A traced value was handed to NumPy, which needs numbers.

    Fix: use the function of the same name in `xlab.numpy`; for code that must run in NumPy use
    `xlab.pure_callback`; index NumPy arrays with traced integers after `jnp.asarray(array)`.
    """


class TracerIntegerConversionError(XlabTypeError):
    """A traced value was used as a Python integer: a list index, `range(n)`, a shape.

    Fix: index an array made with `jnp.asarray`, loop with `lax.fori_loop`, or mark the argument static.
    """


class UnexpectedTracerError(XlabTypeError):
    """A tracer outlived its trace: it was stored outside the function and used later.

    Mistake::

        seen = []

        @xlab.jit
        def f(x):
            seen.append(x + 1)               # leaks
            return x

    Fix: return the value from the function instead of storing it. `with xlab.check_tracer_leaks():` finds
    the place where a tracer escapes.
    """

    tracer: object


class LeakedTracerError(XlabError):
    """`check_tracer_leaks` found tracers still referenced after their trace ended.

    Fix: look at the referrers named in the message; return the value instead of storing it.
    """


class TokenError(XlabTypeError, AttributeError):
    """A token was given to an operation on arrays.

    A token orders effects and holds no numbers. Mistake::

        jnp.sin(lax.create_token())

    Fix: give it to the operation that waits for it, and compute with what that one returns.
    """


class HiTypeError(XlabTypeError, AttributeError):
    """A value of a type of one's own was given to an operation on arrays.

    Such a value is made of arrays, and only its type knows how. Mistake::

        q = Quantized(values, scale)         # register_hitype(Quantized, ...)
        jnp.sin(q)                           # of which array?

    Fix: operations on it are primitives of one's own::

        class Dequantize(HiPrimitive):
            def abstract_eval(self, q): return ShapedArray(q.shape, jnp.float32), set()
            def to_lojax(self, q): return q.values * q.scale
        jnp.sin(Dequantize("dequantize").bind(q))
    """


class BatchSizeError(XlabTypeError, ValueError):
    """A type was taken for that of a batch, and has another number of examples."""


class RefOperandError(XlabTypeError, ValueError):
    """A mutable reference was given to an operation on arrays.

    A reference names a place; its value is read with `[...]`. Mistake::

        ref = xlab.new_ref(jnp.zeros(3))
        jnp.sin(ref)                         # which value? it changes

    Fix::

        jnp.sin(ref[...])
    """


class NonConcreteBooleanIndexError(XlabIndexError):
    """An array was indexed with a traced boolean mask, so the result's shape would depend on values.

    Fix: `jnp.where(mask, x, fill)`, or `jnp.nonzero(mask, size=n)` and integer indexing.
    """


class InconclusiveDimensionOperation(XlabError):
    """A comparison of symbolic dimensions has no answer that holds for every value.

    Fix: add a constraint when the symbolic shape is made, or compare other quantities.
    """


class KeyReuseError(XlabTypeError):
    """A random key was used twice, so two draws would be equal.

    Fix: `key, subkey = xlab.random.split(key)` and use each key once.
    """


class PendingValueError(XlabTypeError):
    """The result of a collective that was only started was used before it was waited for, or left the function that started it.

    Mistake::

        t = lax.psum_start(x, "i")
        y = t + 1                            # there is no value yet

    Fix::

        y = t.done() + 1
    """


class ComplexOperandError(XlabTypeError, ValueError):
    """A function of real numbers was given complex ones: a dtype, and a value, that it does not take."""


class PendingAttributeError(PendingValueError, AttributeError):
    """An attribute of an array was asked of a value that is pending."""


class PendingValueWarning(UserWarning):
    """A collective was started and nobody waits for it, so that the compiler removes it.

    Fix: use the result of `done()`, or do not start it.
    """


class DivergenceWarning(UserWarning):
    """A collective may be reached by some devices only, which would then wait for the others for ever.

    Mistake::

        lax.cond(x[0] > 3, lambda v: v + lax.psum(v, "i"), lambda v: v, x)     # x differs along "i"

    Fix: decide alike everywhere, `lax.cond(lax.pmax(x[0], "i") > 3, ...)`, or communicate before the choice and select
    afterwards, `jnp.where(x[0] > 3, v + lax.psum(v, "i"), v)`.
    """


class DivergenceError(XlabError, ValueError):
    """What `DivergenceWarning` tells, under `config.strict_divergence`."""


class CollectiveTimeoutError(XlabError, RuntimeError):
    """Devices wait in a collective that other devices do not reach.

    The message says which devices, and at which collectives they may be. Their threads stay occupied: restart the process, or
    the kernel of a notebook, after saving what is needed.
    """


class ProcessesApart(XlabError, RuntimeError):
    """The processes of a group are about to start different programs, or one of them has ended its cell.

    Nothing was run. Fix: let nothing that differs between processes (their index, the clock, the order of a set, a local file)
    choose which program runs, or which comes first.
    """


class ProcessesLate(XlabError, TimeoutError):
    """A process of a group did not come to a program, or did not end its cell, within the time limit.

    The message says where each process was. Fix: a longer limit, where there is that much to do; else interrupt or restart the group.
    """


class ProcessFailed(XlabError, RuntimeError):
    """A process of a group raised an error; the message has its traceback, and what became of the others."""


class ProcessLost(XlabError, RuntimeError):
    """A process of a group ended. The group has to be restarted, since no process can take its place: `%xprocesses restart`."""


class MissingRule(XlabError, NotImplementedError):
    """An interpreter met a primitive for which it has no rule.

    The message names the primitive, the table, the line of the user's code and the file where such a rule goes.
    """


class JaxprTypeError(XlabTypeError):
    """A jaxpr is not well formed: a variable is undefined, defined twice, or has another type than its use."""


class ShardingTypeError(XlabTypeError):
    """The shardings carried by the types of an operation's operands do not fit together.

    Fix: bring the operands to one sharding with `reshard(x, P(...))`, or say how the result is to be sharded
    with `out_sharding=`.
    """


class ManualAxisTypeError(XlabTypeError, ValueError):
    """A rule for derivatives gives a value that varies over other mesh axes than the one it belongs to.

    Inside of `shard_map` a tangent varies as its primal does, and a cotangent as the cotangent of its argument has to. Fix: cast with
    `lax.pcast(x, axis, to='varying')` what is the same on all devices, and add up with `lax.psum(x, axis)` what is a part of a sum.
    """


class InvalidInputException(XlabTypeError):
    """A value that is neither an array, nor a number, nor a registered container reached the runtime.

    Fix: convert it to an array, register its class (`xlab.tree_util.register_pytree_node_class`), or make the
    argument static.
    """


class IndivisibleError(XlabError, ValueError):
    """A sharding would divide an array dimension into unequal parts.

    Fix: choose a mesh axis that divides the dimension, pad the array, or leave the dimension unsharded (`None`).
    """


class IncompatibleDevices(XlabError, ValueError):
    """Arguments of one computation live on different sets of devices, or in another device order.

    Fix: move them to one mesh with `xlab.device_put(x, sharding)`, or leave small ones uncommitted.

    `sides` are those that disagree, the first two first: what lies there, and the ids of the devices in their order. `place` is the position in
    the source where arguments of two sides meet, None where none do.
    """

    sides: tuple[tuple[str, tuple[int, ...]], ...] = ()
    place: object = None


class ForbiddenMapError(XlabError, ValueError, RuntimeError):
    """A `pmap` in the body of a `shard_map`, where every device is at work already.

    Fix: map with `xlab.vmap` inside, or with a `shard_map` over a mesh axis that is left.
    """


class UnsupportedVersionError(XlabError, ImportError):
    """The installed jaxlib is outside the range this release was written for.

    Fix: install the version named in the message into the environment of the running kernel.
    """


def no_attribute(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for a name that a module does not have: it names the nearest ones.

    Example:
        >>> str(no_attribute("xlab.numpy", "sine", ["sin", "sinc", "cos"]))
        "module 'xlab.numpy' has no attribute 'sine'. Did you mean sin or sinc?"
    """
    hint = ""
    asking = sys._getframe(2).f_code.co_filename
    # Names with an underscore are asked for by tools, and all names by `from module import name`: they want no advice.
    if not name.startswith("_") and not asking.startswith("<frozen importlib"):
        import difflib

        near = difflib.get_close_matches(name, [n for n in known if not n.startswith("_")], n=3)
        hint = f". Did you mean {' or '.join(near)}?" if near else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}")
