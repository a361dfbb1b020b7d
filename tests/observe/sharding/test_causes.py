"""Every collective that the partitioner adds says which line needs it and why, whatever the operation and whichever dimension is split."""

import re

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.observe import sample_programs as programs
from xlab import lax, observe
from xlab.sharding import AxisType, NamedSharding
from xlab.sharding import PartitionSpec as P

SPECS = [("data", None), (None, "model"), ("data", "model")]
SQUARE = np.random.default_rng(0).normal(size=(16, 16))
SQUARE = (SQUARE @ SQUARE.T + 16 * np.eye(16)).astype(np.float32)
TALL = SQUARE[:, :8].copy()


def conv(x):
    return lax.conv_general_dilated(x[None, None], jnp.ones((1, 1, 3, 3)), (1, 1), "SAME")


TALL_OPERATIONS = {
    "roll": lambda x: jnp.roll(x, 1, 0),
    "flip": lambda x: jnp.flip(x, 0),
    "conv": conv,
    "top_k": lambda x: lax.top_k(x.T, 2),
    "sort": lambda x: jnp.sort(x, 0),
    "argsort": lambda x: jnp.argsort(x, 0),
    "cumsum": lambda x: jnp.cumsum(x, 0),
    "associative_scan": lambda x: lax.associative_scan(jnp.add, x, axis=0),
    "fft": lambda x: jnp.fft.fft(x, axis=0),
    "qr": jnp.linalg.qr,
    "svd": lambda x: jnp.linalg.svd(x, compute_uv=False),
    "slice": lambda x: x[3:7],
    "index": lambda x: x[5],
    "slices in a cond": lambda x: lax.cond(x[0, 0] > 0, lambda v: v[2:6], lambda v: v[4:8], x),
    "concatenate": lambda x: jnp.concatenate([x, x], 0),
    "gather": lambda x: x[np.array([3, 1, 9])],
    "scatter": lambda x: x.at[np.array([1, 7])].add(1.0),
    "dynamic_slice": lambda x: lax.dynamic_slice_in_dim(x, jnp.int32(x[0, 0] > 0) * 3, 4, 0),
    "sum": lambda x: x.sum(0),
    "max": lambda x: x.max(0),
    "argmax": lambda x: jnp.argmax(x, 0),
    "softmax": lambda x: xlab.nn.softmax(x, 0),
    "product": lambda x: x @ x.T,
    "product of columns": lambda x: x.T @ x,
    "reshape": lambda x: x.reshape(-1),
    "pad": lambda x: jnp.pad(x, ((1, 2), (0, 0))),
    "median": lambda x: jnp.median(x, 0),
    "diff": lambda x: jnp.diff(x, axis=0),
    "tile": lambda x: jnp.tile(x, (2, 1)),
    "reduce_window": lambda x: lax.reduce_window(x, 0.0, lax.add, (3, 1), (1, 1), "SAME"),
    "scan": lambda x: lax.scan(lambda c, v: (c + v, c * v), x[0], x),
    "while": lambda x: lax.while_loop(lambda c: c.sum() < 1e6, lambda c: c * 2 + 1, x),
    "swapped": lambda x: x.reshape(4, 4, 8).swapaxes(0, 1).reshape(16, 8),
    "searchsorted": lambda x: jnp.searchsorted(x[:, 0], x[:, 1]),
    "gradient of a roll": lambda x: xlab.grad(lambda v: jnp.sum(jnp.roll(v, 1, 0) * v))(x),
}
SQUARE_OPERATIONS = {
    "solve": lambda x: jnp.linalg.solve(x, jnp.ones(16)),
    "cholesky": jnp.linalg.cholesky,
    "eigh": lambda x: jnp.linalg.eigh(x)[0],
    "inverse": jnp.linalg.inv,
    "triangular_solve": lambda x: lax.linalg.triangular_solve(x, x),
    "trace": jnp.trace,
}
OPERATIONS = {name: (f, TALL) for name, f in TALL_OPERATIONS.items()}
OPERATIONS |= {name: (f, SQUARE) for name, f in SQUARE_OPERATIONS.items()}
FIRST = (
    "roll",
    "conv",
    "top_k",
    "slices in a cond",
    "fft",
    "cholesky",
    "gradient of a roll",
    "pad",
)


def check(name, spec):
    f, x = OPERATIONS[name]
    x = xlab.device_put(x, NamedSharding(programs.mesh(), P(*spec)))

    def program(x):
        return f(x)

    for t in observe.transfers(program, x, tries=0):
        words = (name, spec, t.kind, t.reason, t.fix)
        assert t.origin == "partitioner" and t.source is not None, words
        assert re.search(r"\((transpose of )?line \d+\)", t.reason), words
        assert "no location" not in t.reason and "not known" not in t.reason, words
        assert set(re.findall("`([^`]*)`", t.reason + t.fix)) <= {"x", "v", "c"}, words
        if t.reshards:
            assert t.fix, words
    return True


@pytest.mark.parametrize("name", FIRST)
def test_a_collective_has_its_cause(name):
    assert check(name, SPECS[0])


@pytest.mark.sweep
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_collective_has_its_cause(name):
    for spec in SPECS:
        assert check(name, spec)


def test_an_uneven_result_says_what_would_divide():
    x = xlab.device_put(TALL, NamedSharding(programs.mesh(), P("data", None)))
    found = observe.transfers(lambda x: jnp.pad(x, ((1, 2), (0, 0))), x)
    assert any(
        t.fix
        == "make dimension 0 of the result a multiple of 4 (it has 19 entries), so that it can stay split over data"
        for t in found
    )


def test_whole_matrices_are_not_told_to_split_another_dimension():
    x = xlab.device_put(SQUARE, NamedSharding(programs.mesh(), P("data", None)))
    found = observe.transfers(lambda x: jnp.linalg.cholesky(x * 2), x)
    (gathered,) = [t for t in found if t.reason.startswith("cholesky")]
    assert gathered.fix.endswith("split a batch of them over data, and no dimension of `x` itself")


def test_untried_advice_does_not_put_a_large_argument_on_every_device():
    """A batch that is split is not told to be whole everywhere unless that was compiled and found better."""
    mesh = programs.mesh()
    x = xlab.device_put(np.ones((64, 32), np.float32), NamedSharding(mesh, P("data", None)))
    untried = observe.transfers(lambda x: x @ x.T, x, tries=0)
    assert untried and all("P(None, None)" not in t.fix for t in untried)


def test_a_call_around_an_operation_is_not_why_anything_is_sent():
    """A cell that calls a jitted function: its collectives belong to the operations in it, with the advice of these."""
    mesh = xlab.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)

    def put(a, *spec):
        return xlab.device_put(a, NamedSharding(mesh, P(*spec)))

    @xlab.jit
    def looked_up(first, table, ids):
        return jnp.sum(first) + jnp.sum(table[ids] ** 2)

    given = (
        put(jnp.ones((16, 8)), "model"),
        put(jnp.ones((64, 32)), "data"),
        put(jnp.arange(32), "data"),
    )
    slope = xlab.jit(xlab.grad(looked_up, 1))
    for direct, outer in (
        (looked_up, xlab.jit(lambda first, table, ids: looked_up(first, table, ids))),
        (slope, xlab.jit(lambda first, table, ids: slope(first, table, ids))),
    ):
        here, there = (
            [
                (t.kind, t.source, t.fix)
                for t in observe.transfers(f, *given)
                if t.source is not None and t.source.function.endswith("looked_up")
            ]
            for f in (direct, outer)
        )
        assert len(here) > 1 and there == here


def test_a_reason_is_of_what_the_compiled_module_does():
    """A value that is gathered before an operation is no result of it, a part of a result no part of an operand, and a result no operand."""
    mesh = programs.mesh()
    cut = NamedSharding(mesh, P("data", "model"))
    x = xlab.device_put(np.arange(128, dtype=np.float32).reshape(16, 8), cut)
    found = observe.transfers(lambda v: jnp.fft.fft(v, axis=0), x, tries=0)
    assert len(found) == 2 and not any("result of fft" in t.reason for t in found)
    assert "fft" in found[1].reason and "is carried out on the whole array" in found[1].reason
    rows = xlab.device_put(x, NamedSharding(mesh, P("data")))
    for t in observe.transfers(lambda v: jnp.argmax(v, axis=0), rows, tries=0):
        assert "a part of its result on each device" in t.reason, t.reason
        assert "brings these parts together" in t.reason and "operand" not in t.reason, t.reason
    uneven = lambda v: lax.with_sharding_constraint(v * 2, NamedSharding(mesh, P("data")))
    (t,) = observe.transfers(uneven, np.arange(7, dtype=np.float32), tries=0)
    assert t.reason.startswith("the result of mul") and "is returned whole" in t.reason
