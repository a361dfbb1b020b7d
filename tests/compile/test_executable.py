"""What a compiled program takes and gives: tupled arguments, results of every kind, and devices of other clients (D27, D33, D67)."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.backend import client, compiling, ir
from xlab.core.avals import AbstractValue
from xlab.core.primitive import Primitive
from xlab.interpreters import mlir
from xlab.sharding import Mesh, NamedSharding, SingleDeviceSharding
from xlab.sharding import PartitionSpec as P

X = np.arange(8, dtype=np.float32)
D = xlab.devices()
ROWS = NamedSharding(Mesh(np.array(D), ("x",)), P("x"))

# -- arguments as one tuple -----------------------------------------------------------------------------------


class TPU:
    platform, id = "tpu", 0


@pytest.mark.parametrize(
    ("count", "platform", "wanted"),
    [(2000, "tpu", False), (2001, "tpu", True), (99999, "cpu", False), (99999, "gpu", False)],
)
def test_d27_many_arguments_are_one_tuple_on_tpus(count, platform, wanted):
    assert compiling.should_tuple_args(count, platform) is wanted
    device = TPU() if platform == "tpu" else D[0]
    options = compiling.compile_options([device], arguments=count)
    assert options.parameter_is_tupled_arguments is wanted


def test_d27_the_compiler_is_told_how_many_arguments_there_are(monkeypatch):
    told = []
    real = compiling.compile_options
    monkeypatch.setattr(
        compiling,
        "compile_options",
        lambda *a, **kw: (told.append(kw["arguments"]), real(*a, **kw))[1],
    )
    large = jnp.ones(1000)  # which the program takes as a further argument
    f = xlab.jit(lambda x, unused, y: x + y + large.sum())
    result = f(1.0, 2.0, 3.0)
    assert told[-1] == 3 and result == 1004


def test_d27_programs_with_thousands_of_arguments():
    f = xlab.jit(lambda *args: args[0] + args[-1], keep_unused=True)
    args = np.ones(2500, np.float32).tolist()
    assert f(*args) == 2
    count = {}
    for platform in ("tpu", "cpu"):
        lowered = f.trace(*args).lower(lowering_platforms=(platform,))
        hlo = lowered.as_text("hlo")
        assert ir.argument_count(lowered.compiler_ir()) == 2500
        count[platform] = hlo[hlo.index("ENTRY") :].count(" parameter(")
    assert count == {"tpu": 1, "cpu": 2500}


# -- results --------------------------------------------------------------------------------------------------


def test_d33_arrays_have_the_sharding_and_the_commitment_of_their_program():
    f = xlab.jit(lambda x: (x, x.sum()), out_shardings=(ROWS, None))
    whole, total = f(X)
    assert whole.sharding == ROWS and whole.committed and total.committed
    here = xlab.jit(lambda x: x + 1)(X)
    assert here.sharding == SingleDeviceSharding(D[0]) and not here.committed
    assert xlab.jit(lambda x: x + 1)(xlab.device_put(X, D[3])).committed


def test_d33_results_without_data_keys_and_tokens_have_their_own_form():
    nothing = np.zeros((2, 3), xlab.dtypes.float0)
    f = xlab.jit(lambda a, k, t: (a, k, t, 2 * X))
    for _ in range(2):  # the second call is that of a known program
        a, key, token, x = f(nothing, xlab.random.key(3), lax.create_token())
        assert type(a) is np.ndarray and a.dtype == xlab.dtypes.float0 and a.shape == (2, 3)
        assert xlab.random.bits(key) == xlab.random.bits(xlab.random.key(3))
        assert type(token) is type(lax.create_token())
        token.block_until_ready()
        np.testing.assert_array_equal(x, 2 * X)
    keys = xlab.jit(lambda w: xlab.random.wrap_key_data(w), out_shardings=ROWS)
    assert keys(np.zeros((8, 2), np.uint32)).sharding == ROWS


def test_d33_types_that_no_buffer_holds_are_refused_by_name():
    class Odd(AbstractValue):
        def __repr__(self):
            return "Odd"

        str_short = __repr__

    odd = Primitive("odd")
    odd.def_abstract_eval(lambda a: Odd())
    mlir.register_text_lowering(odd, lambda ctx, x: x)
    for run in (lambda f: f, xlab.jit):
        with pytest.raises(TypeError, match=r"values of type Odd \(a Odd\) cannot be lowered"):
            run(lambda x: odd.bind(x))(X)


# -- other clients --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def there():
    """The devices of a second client."""
    return client._jax.get_tfrt_cpu_client(num_devices=2).devices()


def test_d67_arrays_go_to_the_devices_of_another_client_and_back(there):
    x = jnp.asarray(X)
    halves = NamedSharding(Mesh(np.array(there), ("x",)), P("x"))
    for source in (X, x, xlab.device_put(X, D[2]), xlab.device_put(X, ROWS)):
        for to in (there[1], SingleDeviceSharding(there[0]), halves):
            moved = xlab.device_put(source, to)
            assert moved.committed and moved.devices() <= set(there)
            np.testing.assert_array_equal(moved, X)
            for back in (D[3], ROWS, SingleDeviceSharding(D[0], memory_kind="pinned_host")):
                home = xlab.device_put(moved, back)
                assert home.devices() <= set(D)
                np.testing.assert_array_equal(home, X)
    moved = xlab.device_put([x, xlab.device_put(X, D[1])], there[1])
    assert [y.devices() for y in moved] == [{there[1]}] * 2
    assert xlab.device_put(xlab.random.key(0), there[0]).devices() == {there[0]}


def test_d67_programs_run_where_their_arguments_are_and_do_not_mix_clients(there):
    x = xlab.device_put(X, there[0])
    assert (x + 1).devices() == {there[0]}
    f = xlab.jit(lambda a, b: a * 2 + b)
    assert f(x, X).devices() == {there[0]}
    np.testing.assert_array_equal(f(x, X), 3 * X)
    with pytest.raises(ValueError, match=r"`a`.* ids \[0\] .*`b`.* ids \[0\] .* of another client"):
        f(x, xlab.device_put(X, D[0]))
    slope = xlab.grad(lambda v: xlab.device_put(v, there[1]).sum())(xlab.device_put(X, D[1]))
    assert slope.devices() == {D[1]}
