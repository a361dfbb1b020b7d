"""Functions that are compiled anew from call to call: the cause, and the change that keeps one program."""

from __future__ import annotations

import itertools
import re
import types

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import observe
from xlab.observe.records.finding import Amount

X = np.ones((8, 16), np.float32)
_numbers = itertools.count()


def test_a_static_value_is_offered_as_an_argument_where_it_was_compiled_as_one():
    """What the program is made of is told, and no change to it."""

    def scaled(x, n, *, name):
        return jnp.tanh(x * n)

    def unrolled(x, n):
        for _ in range(n):
            x = x * 2
        return x

    def found(f, **more):
        for n in (2, 3, 4):
            f(X, n, **more)
        (one,) = [x for x in observe.findings(f, X, 4, **more) if x.kind == "recompile"]
        return one

    one = found(xlab.jit(scaled, static_argnums=1, static_argnames="name"), name="a")
    assert one.change == "make `n` an ordinary argument"
    assert one.proof.startswith("compiled with `n` as an argument: one program in the place of 3")
    other = found(xlab.jit(unrolled, static_argnums=1))
    assert not other.change and not other.proof
    assert other.text.endswith("the program is made of its value")


def test_arrays_that_lie_otherwise_have_one_placement_that_is_compiled(put):
    f = xlab.jit(_another(lambda x: jnp.tanh(x) @ x.T))
    spread = [put(np.ones((8, 8), np.float32), *s) for s in (("data",), ("model",), (None, "data"))]
    for x in spread:
        f(x)
    (one,) = [x for x in observe.findings(f, spread[-1]) if x.kind == "recompile"]
    assert "x = xlab.device_put(x, NamedSharding(mesh, P(None, 'data')))" in one.change
    assert one.proof == "compiled for f32[8,8] as P(None, 'data'): one program in the place of 3"
    for x in spread:
        f(xlab.device_put(x, spread[-1].sharding))
    assert f._cache_size() == 3, "no more are made"


SIZES = [(np.ones(n, np.float32),) for n in (3, 5, 4)]
KINDS = [(np.ones(3, d),) for d in (np.int32, np.float16, np.float32)]
BOXES = [([[X], [X]],), (([X], [X]),), (((X,), [X]),)]
STATES = [(X, {}), (X, {"a": X, "b": X}), (X, {"a": X})]
RATES = [(X, 0.1), (X, np.float32(0.1))]
RECOMPILES = {
    "rate of a step": (
        lambda w, lr: w - lr * w, RATES, "`lr` is a Python number", "xlab.numpy.float32(lr)",
        "compiled for f32[]: one program in the place of 2", lambda a: (a[0], jnp.float32(a[1])),
    ),
    "sequences of a model": (
        lambda x: jnp.tanh(x * 3), SIZES, "the shape of `x` changes: ", "pad x to f32[5]",
        "compiled for f32[5]: one program in the place of 3, 5 operations a call where this one has 4",
        lambda a: (np.pad(a[0], (0, 5 - len(a[0]))),),
    ),
    "data of a table": (
        lambda x: jnp.tanh(x * 3), KINDS, "the dtype of `x` changes: ", "asarray(x, 'float32')",
        "compiled for f32[3]: one program in the place of 3", lambda a: (jnp.asarray(a[0], "float32"),),
    ),
    "containers of parameters": (
        lambda p: p[0][0] * p[1][0], BOXES, "`p` was of type list, and is of type tuple",
        "pass the same containers at every call", "compiled for 2 arrays at every call: one program in the place of 3",
        lambda a: (((a[0][0][0],), [a[0][1][0]]),),
    ),
    "parts of a state": (
        lambda x, s: x + sum(s.values()), STATES, "not every call has `s['a']`, `s['b']`",
        "pass `s['a']`, `s['b']` at every call: zeros,",
        "compiled for 3 arrays at every call: one program in the place of 3, ",
        lambda a: (a[0], {"a": 0 * X, "b": 0 * X} | a[1]),
    ),
    "history of a sampler": (
        lambda h: sum(jnp.tanh(x) for x in h), [([X] * n,) for n in (2, 3, 1)], "not every call has `h[1]`, `h[2]`",
        "pass `h[1]`, `h[2]` at every call", "compiled for 3 arrays at every call: one program in the place of 3, ",
        lambda a: ((a[0] + [0 * X] * 3)[:3],),
    ),
}  # fmt: skip


def test_structures_of_which_none_has_all_are_told_and_no_change_is_offered():
    f = xlab.jit(_another(lambda p: sum(p.values())))
    for key in "abc":
        f({key: X})
    (one,) = [x for x in observe.findings(f, {"c": X}) if x.kind == "recompile"]
    assert not one.change and not one.proof
    assert one.text.endswith(
        "one call has `p['c']` and another `p['a']`, so that no one program takes all"
    )


ANEW = {
    "a cell that is run again": (
        "def {name}(x):\n    return jnp.tanh(x) * 3\nf = {name}",
        "define {name} once, before the loop or in a cell of its own",
    ),
    "a function that another makes": (
        "def make():\n    def {name}(x):\n        return jnp.tanh(x) * 3\n    return {name}\nf = make()",
        "define the function once, outside the loop or the function that makes it",
    ),
}


@pytest.mark.parametrize("name", ANEW)
def test_a_function_that_is_defined_anew_is_told_and_once_it_is_defined_there_is_no_more(name):
    def recompiles():
        return [x for x in observe.findings(names["f"], X) if x.kind == "recompile"]

    code, change = ANEW[name]
    called, names = f"anew{next(_numbers)}", {"jnp": jnp}
    define = compile(code.format(name=called), f"<{called}>", "exec")
    for _ in range(3):
        exec(define, names)
        xlab.jit(names["f"])(X)
    (found,) = recompiles()
    assert re.fullmatch(
        r"compiled 2 times more, [\d.]+ .?s: the function is defined anew", found.text
    )
    assert found.change == change.format(name=called)
    assert found.proof == "compiled as it is now: one program in the place of 3"
    exec(define.replace(co_filename=f"<{called} again>"), names)
    f = xlab.jit(names["f"])
    for _ in range(3):
        f(X)
    assert found.outcome == (Amount("programs", 3, f._cache_size(), ""),)


@pytest.mark.parametrize("name", RECOMPILES)
def test_a_recompile_has_a_change_that_was_compiled_and_keeps_one_program(name):
    def recompiles(calls, **how):
        f = xlab.jit(_another(fun))
        for args in calls:
            f(*args)
        found = [x for x in observe.findings(f, *calls[-1], **how) if x.kind == "recompile"]
        return found, f._cache_size()

    fun, calls, said, change, proof, mended = RECOMPILES[name]
    (found,), made = recompiles(calls)
    assert found.us > 0 and found.text.startswith("compiled") and said in found.text
    assert change in found.change and found.proof.startswith(proof) and made == len(calls)
    (untried,), _ = recompiles(calls, tries=0)
    assert not untried.change, "what was not compiled is not offered"
    left, after = recompiles([mended(args) for args in calls])
    assert left == [] and found.outcome == (Amount("programs", made, after, ""),) and after == 1


def _another(fun):
    """The same function under a name that nothing was compiled for."""
    code = fun.__code__.replace(co_name=f"f{next(_numbers)}")
    return types.FunctionType(code, fun.__globals__)
