"""Every row of the specification's error catalogue: class, and what the message has to mention (K104i)."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xlab
from tests.kernels.mpmd_examples import F8, LOCAL, TWO, S, X, add_one, on_two
from xlab import numpy as jnp
from xlab.core.jaxpr import ClosedJaxpr
from xlab.kernels import (
    HOST,
    BlockSpec,
    CoreMemorySpace,
    CoreMesh,
    GridSpec,
    InterpretParams,
    PrefetchGridSpec,
    SemaphoreType,
    core_map,
    interpret_mode,
    kernel_call,
    mpmd_map,
    mpmd_map_p,
    num_programs,
    program_id,
    semaphore_read,
    semaphore_signal,
    semaphore_wait,
)
from xlab.kernels.machine import DeadlockError
from xlab.lax import while_loop

BLOCK = BlockSpec((4,), lambda i: (i,))
ARRAY = jnp.arange(8.0)
VECTOR, OTHER = CoreMesh("c", 2), CoreMesh("d", 2)
SCALAR = CoreMesh("c", 3, core_type="scalar")
HERE = r"test_error_catalogue\.py:\d+"


def copy(x, o):
    o[...] = x[...]


def call(kernel=copy, out=F8, **options):
    return kernel_call(kernel, out, **{"interpret": True, **options})


def on_blocks(spec, **options):
    return call(grid=2, in_specs=[spec], out_specs=BLOCK, **options)(X)


def returns(x, o):
    return {"a": x[...]}


def captures(x, o):
    o[...] = x[...] + ARRAY


def stores(value):
    return lambda: call(lambda x, o: o.set(value(x)))(X)


def reads(index):
    return lambda: call(lambda x, o: o.set(x[index]))(X)


def two_pairs(one, other, kernel=add_one, **options):
    return mpmd_map([(one, kernel), (other, kernel)], F8, interpret=True, **options)(X)


def reference_twice(passed, captured):
    ref = xlab.new_ref(ARRAY)

    def kernel(*refs):
        refs[-1][...] = refs[0][...] + (ref[...] if captured else 0)

    return on_two(kernel)(*[ref] * passed)


def array_inputs():
    closed = xlab.make_jaxpr(on_two(add_one))(X)
    (eqn,) = closed.eqns
    plain = xlab.make_jaxpr(lambda x, y: None)(X, X)
    plain = ClosedJaxpr(plain.jaxpr.replace(outvars=()), ())
    mpmd_map_p.bind(X, **{**eqn.params, "jaxprs": (plain,)})


def several_platforms():
    xlab.export.export(xlab.jit(on_two(add_one)), platforms=["cpu", "cuda"])(X)


def differentiated(f, *args):
    return lambda: xlab.jit(lambda *a: xlab.jvp(f, a, a))(*args)


def dynamic_grid():
    def f(n, x):
        g = lambda x: call(grid=(n,), in_specs=[BLOCK], out_specs=BLOCK)(x)
        return xlab.jvp(g, (x,), (x,))

    xlab.jit(f)(2, X)


def prefetched():
    block = BlockSpec((4,), lambda i, p: (i,))
    spec = PrefetchGridSpec(1, grid=2, in_specs=[block], out_specs=block)
    f = call(lambda p, x, o: copy(x, o), grid_spec=spec)
    xlab.jvp(lambda x: f(jnp.arange(2), x), (X,), (X,))


def written_by_examples():
    def f(ref, x):
        call(lambda x, r, o: r.set(x[...]))(x, ref)

    ref = xlab.new_ref(ARRAY)
    xlab.jit(lambda x: xlab.vmap(lambda x: f(ref, x))(x))(jnp.ones((3, 8)))


def stored_by_examples():
    xlab.jit(lambda x: xlab.vmap(xlab.new_ref(ARRAY).set)(x))(jnp.ones((3, 8)))


def undischarged():
    def f(x):
        core_map(TWO, interpret=True)(lambda: xlab.debug.callback(lambda: None))
        return x

    xlab.jit(f)(X)


def crossed(interpret):
    def kernel(other, mine, o, sems):
        semaphore_wait(sems.at[mine])
        semaphore_signal(sems.at[other])

    pairs = [
        (CoreMesh("p", 1), lambda o, s: kernel(0, 1, o, s)),
        (CoreMesh("q", 1, core_type="scalar"), lambda o, s: kernel(1, 0, o, s)),
    ]
    out = S((1,), "int32")
    sems = [SemaphoreType.REGULAR((2,))]
    return mpmd_map(pairs, out, scratch_shapes=sems, interpret=interpret)()


def endless(x, o):
    def body(i):
        o[0] = x[0]
        return i

    while_loop(lambda i: i >= 0, body, 0)


def signals(*amounts, interpret="value"):
    def kernel(o, sem):
        for n in amounts:
            semaphore_signal(sem, n)
        o[0] = semaphore_read(sem)

    sem = [SemaphoreType.REGULAR]
    return call(kernel, S((1,), "int32"), scratch_shapes=sem, interpret=interpret)()


def body_returns():
    core_map(TWO, interpret=True)(lambda: 3)


NI = NotImplementedError
CATALOGUE = {
    "no pairs": (lambda: mpmd_map([], F8)(X), ValueError, ["at least one mesh/function pair"]),
    "a kernel of kernel_call returns a value": (lambda: call(returns)(X), ValueError, ["should return None", r"PyTreeDef\(\{'a': \*\}\)", HERE]),
    "a kernel of mpmd_map returns a value": (lambda: on_two(returns)(X), ValueError, ["should return None", r"PyTreeDef\(\{'a': \*\}\)", HERE]),
    "an array captured by kernel_call": (lambda: call(captures)(X), ValueError, ["captures", r"float32\[8\]", "pass them as inputs"]),
    "an array captured by mpmd_map": (lambda: on_two(captures)(X), ValueError, ["captures", r"float32\[8\]", "pass them as inputs"]),
    "a reference passed and captured": (lambda: reference_twice(1, True), NI, ["alias", r"args\[0\]"]),
    "a reference passed twice": (lambda: reference_twice(2, False), NI, ["alias", r"args\[0\] and as args\[1\]"]),
    "an input that is no reference": (array_inputs, TypeError, ["Ref inputs", "input 0"]),
    "meshes that are not compatible": (lambda: two_pairs(VECTOR, OTHER), ValueError, [r"CoreMesh\(c=2; vector\)", r"CoreMesh\(d=2; vector\)"]),
    "axes that are not of one size": (lambda: two_pairs(VECTOR, SCALAR), ValueError, ["axis 'c'", "size 2", " 3 "]),
    "scratch of several meshes": (
        lambda: two_pairs(VECTOR, CoreMesh("c", 2, core_type="scalar"), lambda x, o, s: None, scratch_shapes=[LOCAL((2,), "int32")]),
        NI, ["core_type", r"scratch\[0\]", r"int32\[2\]"]),
    "a space that the mesh does not support": (
        lambda: CoreMemorySpace(HOST, CoreMesh("c", 2, supported_memory_spaces=(LOCAL,))), ValueError, ["host", r"CoreMesh\(c=2"]),
    "kernel_call that is not interpreted": (lambda: call(interpret=False)(X), ValueError, ["only interpret mode"]),
    "mpmd_map that is not interpreted": (lambda: mpmd_map([(TWO, add_one)], F8)(X), ValueError, ["only interpret mode"]),
    "mpmd_map for several platforms": (several_platforms, NI, ["multi-platform"]),
    **{f"grid_spec and {name}": (lambda name=name, v=v: call(grid_spec=GridSpec(), **{name: v})(X), ValueError, ["grid_spec", rf"\b{name}\b"])
       for name, v in {"grid": 2, "in_specs": [BLOCK], "out_specs": BLOCK, "scratch_shapes": [F8]}.items()},
    "rank of a block": (lambda: on_blocks(BlockSpec((4, 4), lambda i: (i, 0))), ValueError, [r"args\[0\]", "2 entries", "1 dimensions"]),
    "arity of an index map": (lambda: on_blocks(BlockSpec((4,), lambda i: (i, 0))), ValueError, [r"args\[0\]", r"\b2\b", r"\b1\b"]),
    "type of an index": (lambda: on_blocks(BlockSpec((4,), lambda i: (i * 1.5,))), ValueError, [r"args\[0\]", "int32", "float32"]),
    "an array captured by an index map": (lambda: on_blocks(BlockSpec((4,), lambda i: (jnp.asarray(ARRAY, int)[i],))), ValueError, [r"args\[0\]", r"\[8\]"]),
    "in_specs of another structure": (lambda: call(in_specs=[BLOCK] * 2, out_specs=BLOCK, grid=2)(X), ValueError, [r"PyTreeDef\(\(\*, \*\)\)", r"PyTreeDef\(\(\*,\)\)", "length 2", "length 1"]),
    "out_specs of another structure": (lambda: call(in_specs=[BLOCK], out_specs=[BLOCK] * 2, grid=2)(X), ValueError, [r"PyTreeDef\(\(\*, \*\)\)", r"PyTreeDef\(\*\)", "length 2"]),
    "a size that is no integer": (lambda: call(grid=(2, 1.5))(X), ValueError, [r"\(2, 1.5\)"]),
    "an alias outside": (lambda: call(input_output_aliases={1: 0})(X), ValueError, ["1: 0", r"\[0, 1\)"]),
    "an alias of another type": (lambda: call(out=S((4,), "int32"), input_output_aliases={0: 0})(X), ValueError, ["0: 0", r"float32\[8\]", r"int32\[4\]"]),
    "program_id of an axis outside": (lambda: call(lambda x, o: o.set(x[...] + program_id(2)), grid=(2, 3))(X), ValueError, [r"\(2, 3\)", r"program_id\(2\)"]),
    "program_id outside": (lambda: program_id(0), RuntimeError, ["grid", HERE]),
    "num_programs outside": (lambda: num_programs(0), RuntimeError, ["grid", HERE]),
    "derivative over a dynamic grid": (dynamic_grid, NI, ["known only at run time"]),
    "derivative with prefetch": (prefetched, NI, ["prefetched"]),
    "derivative with aliases": (differentiated(call(input_output_aliases={0: 0}), X), NI, ["input_output_aliases"]),
    "derivative over a mesh": (differentiated(on_two(add_one), X), NI, ["mpmd_map has no derivative"]),
    "a store of another shape": (stores(lambda x: x[:4]), ValueError, [r"\(8,\)", r"\(4,\)"]),
    "a store of another dtype": (stores(lambda x: x[...].astype("int32")), ValueError, ["float32", "int32"]),
    "a reference into a reference": (stores(lambda x: x), ValueError, ["Cannot store a Ref into another Ref"]),
    "examples that write one reference in a kernel": (written_by_examples, ValueError, ["unbatched", "argument"]),
    "examples that write one reference": (stored_by_examples, ValueError, ["unbatched", "argument"]),
    "a static slice outside": (reads(xlab.ds(6, 4)), ValueError, ["start=6", "size=4", "dim=8"]),
    "two ellipses": (reads((..., ...)), ValueError, ["ellipsis"]),
    "too many indices": (reads((0, 0)), ValueError, ["2 indices", r"\(8,\)"]),
    "a negative step": (reads(slice(None, None, -2)), ValueError, [r"found: -2"]),
    "core_map that returns a value": (body_returns, ValueError, ["None"]),
    "core_map without discharging": (undischarged, ValueError, ["without discharging"]),
    "a deadlock": (lambda: crossed("value"), DeadlockError, ["core 0", "core 1", "needs 1, has 0"]),
    "a deadlock of a compiled program": (lambda: crossed(True), DeadlockError, ["core 0", "core 1", "needs 1, has 0"]),
    "the budget of equations": (lambda: call(endless, interpret=InterpretParams(max_equations=100))(X), RuntimeError, ["100 turns", HERE]),
    "a semaphore that counts too far": (lambda: signals(32000, 1000), ValueError, ["33000", "32767"]),
    "an amount that no semaphore counts to": (lambda: signals(40000, interpret=True), ValueError, ["40000", "32767"]),
}  # fmt: skip


@pytest.mark.parametrize("row", CATALOGUE)
def test_k104i_error_catalogue(row):
    trigger, error, mentions = CATALOGUE[row]
    with pytest.raises(error) as raised:
        trigger()
    for words in mentions:
        assert re.search(words, str(raised.value)), (words, str(raised.value))


@pytest.mark.parametrize("interpret", ["compiled", "value"])
@pytest.mark.parametrize("map_", [call, on_two], ids=["kernel_call", "mpmd_map"])
def test_k104i_references_of_eager_calls_work(map_, interpret):
    """Where the reference crashes: a reference captured by an eager call, or passed to it, is read and written."""
    ref = xlab.new_ref(jnp.arange(8.0))
    mode = {"interpret": interpret} if map_ is call else {}

    def captured(x, o):
        o[...] = x[...] + ref[...]
        ref[0] = 5.0

    def passed(r, o):
        o[...] = r[...] * 2
        r[1] = 7.0

    with interpret_mode(interpret):
        np.testing.assert_array_equal(map_(captured, **mode)(X)[1:], 2 * X[1:])
        assert ref[0] == 5
        np.testing.assert_array_equal(map_(passed, **mode)(ref)[2:], 2 * X[2:])
        assert ref[1] == 7
