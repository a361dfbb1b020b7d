"""Which collectives not all of their devices may reach: what the analysis says against what the devices decide when they are asked."""

from __future__ import annotations

import functools
import itertools
import os
import warnings

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.errors import DivergenceError, DivergenceWarning
from xlab.interpreters.divergence import divergences
from xlab.sharding import AxisType
from xlab.sharding import PartitionSpec as P

STEP = int(os.environ.get("XLAB_DIVERGENCE_STEP", "45"))  # 1 for all programs
AXES = ("j", "i")
X = np.arange(64.0, dtype=np.float32)


@functools.cache
def mesh(shape=(2, 4)):
    return xlab.make_mesh(shape, AXES, axis_types=(AxisType.Auto,) * 2)


def mapped(f, check_vma, out=P(AXES), shape=(2, 4)):
    return xlab.shard_map(
        f,
        mesh=mesh(shape),
        in_specs=(P(AXES), P("i"), P("j"), P()),
        out_specs=out,
        check_vma=check_vma,
    )


def varying(v):
    """The value, cast to one that varies over all axes, where types are kept."""
    missing = tuple(a for a in AXES if a not in xlab.typeof(v).mat.varying)
    return (
        lax.pcast(v, missing, to="varying")
        if missing and xlab.core.trace.state.manual is not None
        else v
    )


PREDICATES = {
    "constant": lambda x, y, z, w: jnp.float32(3) > 2,
    "cast": lambda x, y, z, w: varying(jnp.float32(3)) > 2,
    "whole": lambda x, y, z, w: w[0] > 0,
    "sharded over both": lambda x, y, z, w: x[0] > 20,
    "sharded over i": lambda x, y, z, w: y[0] > 1,
    "sharded over j": lambda x, y, z, w: z[0] > 0,
    "rank along i": lambda x, y, z, w: lax.axis_index("i") > 1,
    "rank along j": lambda x, y, z, w: lax.axis_index("j") > 0,
    "sum over i": lambda x, y, z, w: lax.psum(x[0], "i") > 100,
    "maximum over both": lambda x, y, z, w: lax.pmax(x[0], AXES) > 20,
    "gathered over j": lambda x, y, z, w: lax.all_gather(x[0], "j")[1] > 40,
    "passed on along i": lambda x, y, z, w: lax.ppermute(y[0], "i", [(0, 1), (1, 0)]) > 0,
    "sum of a block": lambda x, y, z, w: lax.psum_scatter(x, "i", tiled=True)[0] > 60,
    "of another cond": lambda x, y, z, w: (
        lax.cond(
            lax.axis_index("i") > 1,
            lambda: varying(jnp.float32(1)),
            lambda: varying(jnp.float32(2)),
        )
        > 1
    ),
    "of a loop": lambda x, y, z, w: (
        lax.while_loop(lambda c: c < 4, lambda c: c + 1, lax.axis_index("j") * 8) > 4
    ),
    "after a scan": lambda x, y, z, w: lax.scan(lambda c, v: (c + v, None), x[0] * 0, x)[0] > 100,
    "of a reference": lambda x, y, z, w: stored(y[0]) > 1,
}


def stored(v):
    ref = xlab.new_ref(v * 0)
    ref[...] = v
    return ref[...]


COLLECTIVES = {
    "psum": lambda v, a: lax.psum(v, a),
    "pmean": lambda v, a: lax.pmean(v, a),
    "pmax": lambda v, a: lax.pmax(v, a),
    "all_gather": lambda v, a: lax.all_gather(v, a).sum(0),
    "psum_scatter": lambda v, a: v + lax.psum_scatter(v, a, tiled=True).sum(),
    "all_to_all": lambda v, a: lax.all_to_all(v, a, 0, 0, tiled=True),
    "ppermute": lambda v, a: lax.ppermute(v, a, [(0, 1)]),
    "pbroadcast": lambda v, a: lax.pbroadcast(v, a, 1),
}


def loop(p, f, x):
    return lax.while_loop(
        lambda c: (c[0] < 3) & c[1],
        lambda c: (c[0] + 1, c[1], f(c[2])),
        (varying(jnp.int32(0)), varying(p), x),
    )[2]


CONTROLS = {
    "cond": lambda p, f, x: lax.cond(p, f, lambda v: v, x),
    "switch": lambda p, f, x: lax.switch(p.astype(np.int32), [lambda v: v, f, lambda v: 2 * v], x),
    "while": loop,
    "dynamic fori": lambda p, f, x: lax.fori_loop(0, p.astype(np.int32), lambda _, v: f(v), x),
    "static fori": lambda p, f, x: lax.fori_loop(0, 2, lambda _, v: f(jnp.where(p, v, -v)), x),
    "scan": lambda p, f, x: lax.scan(lambda c, _: (f(jnp.where(p, c, -c)), None), x, length=2)[0],
    "select": lambda p, f, x: jnp.where(p, f(x), x),
    "cond in scan": lambda p, f, x: lax.scan(
        lambda c, _: (lax.cond(p, f, lambda v: v, c), None), x, length=2
    )[0],
    "jit in cond": lambda p, f, x: lax.cond(p, xlab.jit(f), lambda v: v, x),
    "checkpoint in cond": lambda p, f, x: lax.cond(p, xlab.checkpoint(f), lambda v: v, x),
    "vmap of select": lambda p, f, x: (
        xlab.vmap(lambda v: lax.cond(v > 3, lambda u: u + 1, lambda u: u, v))(f(x)) * p
    ),
}
DECIDES = (
    "cond",
    "switch",
    "while",
    "dynamic fori",
    "cond in scan",
    "jit in cond",
    "checkpoint in cond",
)


@functools.cache
def truth(predicate) -> frozenset:
    """Over which axes the devices answer differently, when asked with some inputs."""

    def ask(*operands):
        return varying(PREDICATES[predicate](*operands).astype(np.float32)).reshape(1, 1)

    out = set()
    for shift in (0, 17):
        answers = np.asarray(
            mapped(ask, True, P(*AXES))(
                X - shift, np.arange(4.0) + shift, np.arange(2.0), np.arange(3.0)
            )
        )
        out |= {a for d, a in enumerate(AXES) if (answers != np.roll(answers, 1, d)).any()}
    return frozenset(out)


CASES = list(itertools.product(CONTROLS, PREDICATES, COLLECTIVES, ("i", "j", AXES), (True, False)))


@pytest.mark.parametrize("part", range(4))
def test_told_exactly_where_devices_may_differ(part):
    cases = CASES[part * STEP // 4 :: STEP]
    wrong = []
    for control, predicate, collective, axes, check_vma in cases:

        def f(x, y, z, w, control=control, predicate=predicate, collective=collective, axes=axes):
            p = PREDICATES[predicate](x, y, z, w)
            return CONTROLS[control](
                varying(p), lambda v: varying(COLLECTIVES[collective](v, axes)), varying(x)
            )

        over = (
            set(AXES) if collective == "ppermute" else set(axes)
        )  # a ppermute keeps all devices waiting
        may = control in DECIDES and bool(truth(predicate) & over)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            closed = xlab.make_jaxpr(mapped(f, check_vma))(
                X, np.arange(4.0), np.arange(2.0), np.arange(3.0)
            )
        told = [w for w in told if issubclass(w.category, DivergenceWarning)]
        if bool(told) is not may or bool(divergences(closed)) is not may:
            wrong.append(
                (
                    control,
                    predicate,
                    collective,
                    axes,
                    check_vma,
                    may,
                    [str(w.message) for w in told],
                )
            )
    assert not wrong, wrong[:3]


def test_names_lines_and_becomes_an_error():
    def f(x, y, z, w):
        return lax.cond(x[0] > 3, lambda v: varying(lax.psum(v, "i")), lambda v: v, x)  # told of

    args = X, np.arange(4.0), np.arange(2.0), np.arange(3.0)
    with pytest.warns(
        DivergenceWarning,
        match=r"psum at .*test_divergence\.py:\d+ .* is inside the cond at .*may differ between devices "
        r"along 'i'.*lax\.pmax",
    ) as told:
        xlab.make_jaxpr(mapped(f, True))(*args)
    assert len(told) == 1
    with open(told[0].filename) as file:
        assert "# told of" in file.readlines()[told[0].lineno - 1]
    with xlab.strict_divergence(), pytest.raises(DivergenceError, match="psum at"):
        xlab.make_jaxpr(mapped(f, True))(*args)
    with warnings.catch_warnings(action="error"):  # one device along the axis, and nobody who waits
        xlab.make_jaxpr(mapped(f, True, shape=(8, 1)))(
            *args[:1], np.arange(4.0), np.arange(8.0), np.arange(3.0)
        )
    assert issubclass(DivergenceError, ValueError)


def test_the_derivative_communicates_where_the_function_does_not():
    def f(x, y, z, w):
        return lax.cond(
            x[0] > 70, lambda v: v * w[0], lambda v: v, x
        )  # nobody takes it: it would never end

    args = (
        X,
        np.arange(4.0, dtype=np.float32),
        np.arange(2.0, dtype=np.float32),
        np.ones(3, np.float32),
    )
    with warnings.catch_warnings(action="error"):
        mapped(f, True)(*args)
    with pytest.warns(DivergenceWarning, match="such as its derivative: psum at"):
        got = xlab.grad(lambda w: mapped(f, True)(*args[:3], w).sum())(args[3])
    assert got.tolist() == [0, 0, 0]


def test_x21_results_taken_from_the_first_device_are_told():
    """`out_axes=None` and `check_vma=False` take it on trust that devices agree."""
    x = X[:8].reshape(4, 2)

    def said(f, *args):
        with xlab.observe.record() as session:
            f(*args)
        return [n.text for n in xlab.observe.report(session).notices if "from the first" in n.text]

    def body(x, w):
        return x, lax.psum(x, "i"), w * 2, lax.all_gather(x, "i"), lax.axis_index("i")

    where = {"axis_name": "i", "in_axes": (0, None), "out_axes": None}
    got = said(xlab.pmap(body, **where), x, 3.0)
    assert len(got) == 2
    assert all(f"result {i} of pmap(body) may differ between devices along 'i'" in t for i, t in zip((0, 4), got))  # fmt: skip
    assert said(xlab.pmap(lambda x, w: lax.pmean(x, "i") * w, **where), x, 3.0) == []
    assert said(xlab.pmap(body, "i", in_axes=(0, None)), x, 3.0) == []
    loose = mapped(lambda x, y, z, w: (x[:1] * 2, lax.pmax(y, "i")), False, (P("j"), P()))
    (text,) = said(loose, X, X, X, X)
    assert "result 0 of <lambda> may differ between devices along 'i'" in text
    slope = xlab.grad(
        lambda w: xlab.pmap(lambda x, w: (x * w).sum(), in_axes=(0, None))(x, w).sum()
    )
    assert said(slope, 3.0) == [] and said(xlab.jit(slope), 3.0) == []
