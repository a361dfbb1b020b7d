"""`mpmd_map` where the reference has it: what it gives, and what it refuses (K103)."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import xlab
from tests.kernels.mpmd_examples import (
    F8,
    LOCAL,
    TWO,
    S,
    X,
    add_one,
    first_is_seven,
    on_two,
    positional_scratch,
    writes_its_input,
)
from xlab import lax
from xlab import numpy as jnp
from xlab.kernels import (
    interpret_mode,
    mpmd_map,
)
from xlab.kernels.failures import KernelWarning

# -- the reference --------------------------------------------------------------------------------------------


def ours():
    return SimpleNamespace(
        jax=xlab, jnp=jnp, lax=lax, S=S, local=LOCAL, mesh=TWO, run=on_two, map=mpmd_map
    )


def theirs():
    jax = pytest.importorskip("jax")
    from jax._src.pallas import mpmd
    from jax.experimental.pallas import tpu

    mesh = tpu.create_tensorcore_mesh("c", num_cores=2)
    return SimpleNamespace(
        jax=jax,
        jnp=jax.numpy,
        lax=jax.lax,
        S=jax.ShapeDtypeStruct,
        local=tpu.VMEM,
        mesh=mesh,
        run=lambda kernel, out=jax.ShapeDtypeStruct((8,), "float32"), **options: mpmd._mpmd_map(
            [(mesh, kernel)], out, interpret=True, **options
        ),
        map=mpmd._mpmd_map,
    )


def keyword_scratch(x, o, *, s):
    s[...] = x[...] * 3
    o[...] = s[...] + 1


def two_outputs(x, a, b):
    a[...] = x[...]
    b[...] = -x[...]


def tree_output(x, o):
    o["a"][...] = x[...]
    o["b"][1] = x[2]


def nested_outputs(x, pair, c):
    pair[0][...] = x[...]
    pair[1][...] = x[...] * 2
    c[...] = x[...] * 3


def argument_tree(tree, y, o):
    o[...] = tree["a"][0][...] * tree["b"][...] + y[0]


def size(n):
    def kernel(x, o):
        o[...] = x[...] * 0 + n.lax.axis_size("c")

    return kernel


ROWS = {
    "one pair": lambda n: n.run(add_one)(X),
    "under jit": lambda n: n.jax.jit(lambda x: n.run(add_one)(x) * 2)(X),
    "dictionary of scratch": lambda n: n.run(
        keyword_scratch, scratch_types={"s": n.local((8,), "float32")}
    )(X),
    "sequence of scratch": lambda n: n.run(
        positional_scratch, scratch_types=[n.local((8,), "float32"), n.local((1,), "float32")]
    )(X),
    "tuple of outputs": lambda n: n.run(two_outputs, (n.S((8,), "float32"),) * 2)(X),
    "list of outputs": lambda n: n.run(two_outputs, [n.S((8,), "float32")] * 2)(X),
    "tree of outputs": lambda n: n.run(
        tree_output, {"b": n.S((2,), "float32"), "a": n.S((8,), "float32")}
    )(X),
    "nested outputs": lambda n: n.run(
        nested_outputs,
        ((n.S((8,), "float32"), n.S((8,), "float32")), n.S((8,), "float32")),
    )(X),
    "tree of arguments": lambda n: n.run(argument_tree)({"b": X, "a": [X + 1]}, X[:1] + 5),
    "no outputs": lambda n: n.run(lambda x: None, ())(X),
    "an input that is written": lambda n: n.run(writes_its_input)(X),
    "an alias": lambda n: n.run(first_is_seven, input_output_aliases={0: 0})(X),
    "axis_size": lambda n: n.run(size(n))(X),
    "a batch of one": lambda n: n.jax.vmap(n.run(add_one))(X[None]),
    "a batch of one, in the second place": lambda n: n.jax.vmap(
        n.run(two_outputs, (n.S((8,), "float32"),) * 2), in_axes=1
    )(X[:, None]),
    "unbatched under vmap": lambda n: n.jax.vmap(lambda y: n.run(add_one)(X) + y)(
        n.jnp.arange(2.0)
    ),
    "an output in a space of its own": lambda n: n.run(add_one, n.local((8,), "float32"))(X),
}


@pytest.mark.reference
@pytest.mark.parametrize("row", ROWS)
def test_k103_values_are_those_of_the_reference(row):
    """K62, K63, K65, K69, K76 where the reference has them."""
    want, got = ROWS[row](theirs()), ROWS[row](ours())
    flat_want, flat_got = pytest.importorskip("jax").tree.leaves(want), xlab.tree.leaves(got)
    assert len(flat_want) == len(flat_got)
    assert type(got) is type(want) or not isinstance(want, (tuple, list, dict))
    for w, g in zip(flat_want, flat_got):
        assert str(g.dtype) == str(w.dtype)
        np.testing.assert_array_equal(np.asarray(g), np.asarray(w))


@pytest.mark.parametrize("row", ROWS)
def test_k86_the_value_interpreter_gives_the_same(row):
    want = ROWS[row](ours())
    with interpret_mode("value"), warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelWarning)
        got = ROWS[row](ours())
    for w, g in zip(xlab.tree.leaves(want), xlab.tree.leaves(got), strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_array_equal(g, w)


def captures(n):
    array = n.jnp.ones(8)

    def kernel(x, o):
        o[...] = x[...] + array

    return kernel


def passes_twice(n):
    def f(x):
        ref = n.jax.new_ref(x)
        return n.run(lambda a, b, o: None)(ref, ref)

    return n.jax.jit(f)(X)


def passes_what_it_captures(n):
    def f(x):
        ref = n.jax.new_ref(x)

        def kernel(a, o):
            o[...] = a[...] + ref[...]

        return n.run(kernel)(ref)

    return n.jax.jit(f)(X)


ERRORS = {
    "no pair": (lambda n: n.map([], F8, interpret=True)(X), "at least one mesh/function pair"),
    "a result": (lambda n: n.run(lambda x, o: x[...])(X), "should return None"),
    "an array captured": (lambda n: n.run(captures(n))(X), "captures"),
    "not on CPU": (lambda n: n.map([(n.mesh, add_one)], n.S((8,), "float32"))(X), "interpret mode is supported on CPU"),
    "an output of no type": (lambda n: n.run(add_one, 3)(X), ""),
    "no array": (lambda n: n.run(add_one)("abc"), ""),
    "a reference twice": (passes_twice, ""),
    "captured and passed": (passes_what_it_captures, "alias"),
    "a keyword": (lambda n: n.run(add_one)(X, y=X), "unexpected keyword argument 'y'"),
    "a captured number under vmap": (
        lambda n: n.jax.vmap(lambda x, s: n.run(lambda x, o: o.__setitem__(..., x[...] * s))(x))(
            X[None], n.jnp.ones(1)
        ),
        "closed?.over|closes over",
    ),
}  # fmt: skip


@pytest.mark.reference
@pytest.mark.parametrize("row", ERRORS)
def test_k103_errors_are_those_of_the_reference(row):
    """K62, K66, K67, K76, K46: class, and words where there are any."""
    run, words = ERRORS[row]
    with pytest.raises(Exception) as want:
        run(theirs())
    with pytest.raises(Exception) as got:
        run(ours())
    assert isinstance(got.value, want.type)
    got.match(f"(?i){words}")
