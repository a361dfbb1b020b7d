"""What a program needs, where it runs and how its values lie, before anything is written or compiled."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.compile.lowering import lower
from xlab.compile.resolve import LoweringRequest, needed, resolve
from xlab.errors import IncompatibleDevices
from xlab.sharding import AxisType, NamedSharding, SingleDeviceSharding
from xlab.sharding import PartitionSpec as P

X = np.ones(8, np.float32)


def traced(fun, *args):
    return xlab.jit(fun).trace(*args).jaxpr


def names(closed):
    return [e.primitive.name for e in closed.jaxpr.eqns]


@pytest.fixture
def mesh():
    return xlab.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


class TestNeeded:
    def test_a_program_of_which_everything_is_read_is_itself(self):
        closed = traced(lambda a, b: lax.mul(lax.sin(a), b), X, X)
        assert needed(closed) == (closed, (0, 1))

    def test_what_nothing_reads_goes_and_arguments_are_said(self):
        def f(a, b, c):
            lax.cos(lax.sin(b))  # whose results nothing reads
            return lax.neg(c), a

        closed = traced(f, X, X, X)
        program, kept = needed(closed)
        assert names(program) == ["neg"] and kept == (0, 2) and len(program.jaxpr.invars) == 3
        assert needed(closed)[0] is program  # found once

    def test_effects_stay(self):
        def f(a):
            xlab.debug.callback(lambda v: None, a)
            lax.sin(a)
            return lax.neg(a)

        assert names(needed(traced(f, X))[0]) == ["debug_callback", "neg"]

    def test_constants_that_nothing_reads_go(self):
        big = jnp.ones(4096)

        def f(a):
            lax.mul(big, big)
            return lax.neg(a)

        closed = traced(f, X)
        assert len(closed.consts) == 1 and not needed(closed)[0].consts

    def test_an_unread_result_of_a_program_inside(self):
        inner = xlab.jit(lambda a, b: (lax.sin(a), lax.cos(b)))
        program, kept = needed(traced(lambda a, b: inner(a, b)[0], X, X))
        assert kept == (0,) and names(program.jaxpr.eqns[0].params["jaxpr"]) == ["sin"]


class TestResolve:
    def test_one_device(self):
        found = resolve(traced(lambda a, b: lax.neg(b), X, X), "f", LoweringRequest([None, None]))
        assert (
            found.kept == (1,)
            and not found.committed
            and found.in_shardings == (SingleDeviceSharding(found.devices[0]),)
        )
        assert found.out_shardings == (None,) and found.donated == {}

    def test_several_devices_leave_arguments_to_the_compiler_unless_donated(self, mesh):
        sharded = NamedSharding(mesh, P("x"))
        closed = traced(lambda a, b, c: lax.add(lax.add(a, b), lax.mul(b, c)), X, X, X)
        found = resolve(closed, "f", LoweringRequest([sharded, None, None], donated=(2,)))
        assert found.devices == sharded.devices_in_order and found.committed and found.mesh is mesh
        assert found.in_shardings == (
            sharded,
            None,
            NamedSharding(mesh, P()),
        ) and found.donated == {2: 0}

    def test_what_is_asked_for_comes_before_what_is_given(self, mesh):
        given, asked = NamedSharding(mesh, P("x")), NamedSharding(mesh, P("y"))
        found = resolve(
            traced(lambda a: lax.neg(a), X),
            "f",
            LoweringRequest([given], in_shardings=[asked], out_shardings=[given]),
        )
        assert found.in_shardings == (asked,) and found.out_shardings == (given,)

    def test_errors_name_arguments_and_results(self, mesh):
        closed = traced(lambda weights: lax.neg(weights), np.ones(6, np.float32))
        sharded = NamedSharding(mesh, P("x"))
        with pytest.raises(
            ValueError, match=r"jit\(f\): argument `weights` of type float32\[6\] does not fit"
        ):
            resolve(closed, "f", LoweringRequest([None], in_shardings=[sharded]))
        with pytest.raises(ValueError, match=r"jit\(f\): `loss` of type float32\[6\] does not fit"):
            resolve(
                closed,
                "f",
                LoweringRequest([None], out_shardings=[sharded], result_name=lambda i: "loss"),
            )

    @pytest.mark.parametrize(
        ("name", "fun"),
        [
            ("mul", lambda a, b: lax.mul(lax.neg(a), lax.sin(b))),
            ("mul", lambda a, b: xlab.jit(lambda u, v: lax.mul(u, lax.cos(v)))(lax.neg(b), a)),
            ("cond", lambda a, b: lax.cond(a[0] > 0, lambda: a, lambda: b)),
            ("scan", lambda a, b: lax.scan(lambda c, v: (b[0], c), a[0], a)),
            ("add", lambda a, b: lax.scan(lambda c, v: (lax.add(c, b), None), a, length=2)),
            (None, lambda a, b: (lax.neg(a), lax.sin(b), xlab.jit(lambda: 1.0)())),
        ],
    )
    def test_where_devices_that_differ_meet(self, name, fun):
        closed, lies = traced(fun, X, X), map(SingleDeviceSharding, xlab.devices()[1:3])
        with pytest.raises(IncompatibleDevices) as caught:
            resolve(closed, "f", LoweringRequest(list(lies)))
        error = caught.value
        if name is None:
            assert error.place is None and "meet" not in str(error)
        else:
            assert error.place.text().startswith(f'("{name}", ')
            assert f"They meet in {name} at {error.place}" in str(error)

    def test_a_request_becomes_a_module(self, mesh):
        sharded = NamedSharding(mesh, P("x"))
        made = lower(
            traced(lambda a, b: lax.neg(b), X, X),
            "f",
            LoweringRequest([sharded, sharded], donated=(1,), out_shardings=[sharded]),
        )
        assert made.kept == (1,) and made.donated == (1,) and made.refused == ()
        assert (
            made.module.text.count("sdy.sharding =") == 2
            and "jax.buffer_donor = true" in made.module.text
        )
