"""Bodies of `shard_map` and `pmap` that Python looks into: values of each device, control flow, NumPy, transformations, errors."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.config import flag_context
from xlab.parallel import by_operation
from xlab.sharding import AxisType, P, make_mesh

X = np.arange(16, dtype=np.float32).reshape(8, 2)
BOTH = ("x", "y")


@pytest.fixture(scope="module")
def mesh():
    return make_mesh((4, 2), BOTH, axis_types=(AxisType.Auto,) * 2)


@pytest.fixture
def along(mesh):
    def over(f, ins=P("x", "y"), out=P("x", "y"), **options):
        return xlab.shard_map(f, mesh=mesh, in_specs=ins, out_specs=out, **options)

    return over


# -- values are shown and compared ------------------------------------------------------------------------


def test_x62_print_shows_each_device(along, capsys):
    def body(x):
        print("x is", x)
        print(lax.psum(x, "y"))
        print(lax.psum(x.sum(), BOTH), f"{lax.psum(x.sum(), BOTH):.1f}", lax.axis_index("x") + 1)
        return x

    f = along(body)
    for _ in range(2):  # every call prints
        assert np.array_equal(f(X), X)
        text = capsys.readouterr().out
        assert text.startswith(
            "x is On cpu:0 at mesh coordinates (x, y) = (0, 0):\n[[0.]\n [2.]]\n"
        )
        assert text.count("x is") == 1
        assert "On cpu:7 at mesh coordinates (x, y) = (3, 1):\n[[13.]\n [15.]]\n" in text
        assert "On cpu:2, cpu:3 at mesh coordinates (x,) = (1,):\n[[ 9.]\n [13.]]\n" in text
        assert "On 8 devices, cpu:0 to cpu:7:\n120.0\n 120.0 On" in text
        assert "On cpu:6, cpu:7 at mesh coordinates (x,) = (3,):\n4\n" in text


def test_x62_looking_runs_the_body_once(along):
    ran = []

    def body(x):
        ran.append(1)
        y = x * 2
        if lax.psum(y.sum(), BOTH) > 3:
            y = y + 1
        ran.append(2)
        return y + x  # values from before and after the look

    f = along(body)
    assert np.array_equal(f(X), 3 * X + 1)
    assert ran == [1, 2]
    assert np.array_equal(f(X), 3 * X + 1)


def test_x62_python_acts_on_values_that_devices_share(along):
    def body(x):
        n = 0
        while lax.psum(x.sum(), BOTH) < 1000:
            x, n = x * 2, n + 1
        return x * n + [10, 20][lax.psum(jnp.int32(1), "y") - 1]

    assert np.array_equal(along(body)(X), X * 16 * 4 + 20)


@pytest.mark.parametrize("convert", [float, np.asarray, lambda v: v.item(), complex, int])
def test_x62_numbers_and_numpy(along, convert):
    got = along(lambda x: x * convert(lax.psum(x.sum(), BOTH)).real)(X)
    assert np.array_equal(got, X * 120)


def test_x62_disagreeing_devices_are_named(along):
    with pytest.raises(xlab.errors.TracerBoolConversionError) as e:
        along(lambda x: x if x.sum() > 8 else -x)(X)
    text = str(e.value)
    assert "test_by_operation.py" in text and "the devices disagree" in text
    assert "False at x=0, y=0, x=0, y=1" in text and "lax.psum" in text
    with pytest.raises(xlab.errors.TracerArrayConversionError, match="devices disagree"):
        along(np.asarray)(X)
    with pytest.raises(xlab.errors.TracerIntegerConversionError, match="devices disagree"):
        along(lambda x: [x, x][lax.axis_index("y")])(X)


def test_x62_exceptions_stand_where_the_user_wrote_them(along):
    def body(x):
        print(x)
        return x @ jnp.zeros((7,))

    with pytest.raises(TypeError, match="7") as e:
        along(body)(X)
    assert "test_by_operation.py" in "".join(str(t.path) for t in e.traceback)
    assert any(t.name == "body" for t in e.traceback)


def test_x62_values_do_not_outlive_the_body(along):
    kept = []

    def body(x):
        print(x.sum())
        kept.append(x + 1)
        return x

    along(body)(X)
    with pytest.raises(xlab.errors.UnexpectedTracerError):
        jnp.sin(kept[0])


def test_under_jit_nothing_is_known(along):
    f = along(lambda x: x if lax.psum(x.sum(), BOTH) > 3 else -x)
    with pytest.raises(xlab.errors.TracerBoolConversionError, match="only known when the compiled"):
        xlab.jit(f)(X)
    assert np.array_equal(f(X), X)


def test_bodies_that_look_at_nothing_run_as_one_program(along, monkeypatch):
    monkeypatch.setattr(by_operation.BodyTrace, "switch", lambda self: pytest.fail("looked"))

    def body(x):
        i = lax.axis_index("y")
        picked = x[i] + jnp.take(x, i) + lax.fori_loop(0, i, lambda k, c: c + k, 0)
        y = xlab.nn.softmax(x) + lax.cond(x.sum() > 1, jnp.sin, jnp.cos, x) + xlab.device_put(x)
        return y + picked + jnp.where(x > 1, x, 0)[::-1] + jnp.linalg.norm(x)

    assert along(body)(X).shape == X.shape


# -- every way to run a body gives one result -------------------------------------------------------------


def _scan(x):
    return lax.scan(lambda c, v: (c + v, c * v), jnp.zeros(x.shape[1:]) + x[0] * 0, x)[1]


@xlab.custom_vjp
def _twice(x):
    return 2 * x


_twice.defvjp(lambda x: (2 * x, None), lambda _, ct: (3 * ct,))


@xlab.custom_jvp
def _cube(x):
    return x**3


_cube.defjvp(lambda primals, tangents: (_cube(primals[0]), 5 * tangents[0]))

BODIES = {
    "elementwise": lambda x: jnp.sin(x) * x + 1,
    "psum": lambda x: x * lax.psum(x, "x"),
    "psum of both": lambda x: x * lax.psum((x * x).sum(), BOTH),
    "all_gather": lambda x: x + lax.all_gather(x, "y", axis=1, tiled=True).sum() * x,
    "ppermute": lambda x: x * lax.ppermute(x, "x", [(i, (i + 1) % 4) for i in range(4)]),
    "axis_index": lambda x: x * (1.0 + lax.axis_index("x") + 2 * lax.axis_index("y")),
    "psum_scatter": lambda x: x + lax.psum_scatter(jnp.tile(x.sum(), 2), "y", tiled=True)[None],
    "scan": _scan,
    "cond": lambda x: lax.cond(x.sum() > 10, lambda v: v * 2, lambda v: v * v, x),
    "jit": lambda x: xlab.jit(lambda v: v * lax.psum(v, "y"))(x),
    "vmap inside": lambda x: xlab.vmap(lambda row: row * lax.psum(row.sum(), "x"))(x),
    "grad inside": lambda x: xlab.grad(lambda v: (jnp.sin(v) * lax.psum(v, "x")).sum())(x),
    "custom rules": lambda x: _twice(x) + _cube(x),
    "checkpoint": xlab.checkpoint(lambda x: jnp.sin(jnp.sin(x)) * lax.psum(x, "x")),
}


def _looking(body):
    def looks(x):
        y = x + 0
        if lax.psum(lax.stop_gradient(jnp.ones(())), BOTH) == 8:
            return body(y)
        raise AssertionError

    return looks


@pytest.mark.parametrize(
    ("name", "check_vma"),
    [*((name, True) for name in BODIES), ("psum", False), ("grad inside", False), ("jit", False)],
)
def test_results_are_those_of_the_program(along, name, check_vma):
    body = BODIES[name]
    whole = along(body, check_vma=check_vma)
    want = whole(X)
    looks = along(_looking(body), check_vma=check_vma)
    np.testing.assert_allclose(looks(X), want, rtol=2e-6)
    with xlab.disable_jit():
        got = along(body, check_vma=check_vma)(X)
    np.testing.assert_allclose(got, want, rtol=2e-6)
    assert got.sharding.is_equivalent_to(want.sharding, 2)


TRANSFORMATIONS = {
    "grad": lambda f: xlab.grad(lambda a: (f(a) ** 2).sum())(X),
    "jvp": lambda f: xlab.jvp(f, (X,), (X + 1,))[1],
    "vmap": lambda f: xlab.vmap(f)(np.stack([X, 2 * X])),
    "grad of vmap": lambda f: xlab.grad(lambda a: xlab.vmap(f)(jnp.stack([a, 2 * a])).sum())(X),
}


@pytest.mark.parametrize("name", ["psum of both", "custom rules"])
@pytest.mark.parametrize("how", TRANSFORMATIONS)
def test_transformations_around_a_body_that_is_looked_into(along, name, how):
    if (name, how) == ("custom rules", "jvp"):
        pytest.skip("a custom_vjp function has only a reverse rule")
    whole, looks = along(BODIES[name]), along(_looking(BODIES[name]))
    transform = TRANSFORMATIONS[how]
    np.testing.assert_allclose(transform(looks), transform(whole), rtol=1e-5)


def test_looking_inside_of_derivatives(along, capsys):
    def body(x):
        def loss(v):
            print("loss of", v)
            if lax.psum(v.sum(), BOTH) > 3:  # the primal value is known
                return (v * v).sum()
            return v.sum()

        return xlab.grad(loss)(x)

    assert np.array_equal(along(body)(X), 2 * X)
    assert (
        "GradTracer(primal=On cpu:0 at mesh coordinates (x, y) = (0, 0):" in capsys.readouterr().out
    )
    with pytest.raises(xlab.errors.ConcretizationTypeError):  # a float would lose the derivative
        along(lambda x: xlab.grad(lambda v: v.sum() * float(lax.psum(v.sum(), BOTH)))(x))(X)


@pytest.mark.parametrize("ins", [P("x"), P()])
def test_partly_manual_bodies(along, ins, capsys):
    def body(x):
        print(x.shape, x[0])
        return x + lax.psum(jnp.ones(()), "x")

    assert np.array_equal(along(body, ins, ins, axis_names={"x"})(X), X + 4)
    assert (
        "(2, 2) On cpu:0, cpu:1 at mesh coordinates (x,) = (0,):" in capsys.readouterr().out
        or ins == P()
    )


def test_trees_constants_keys_and_results_that_are_the_same_everywhere(along, capsys):
    outside = jnp.arange(3.0)

    def body(a, k):
        print(k, a["w"])
        noise = xlab.random.normal(xlab.random.fold_in(k, lax.axis_index("x")), (2, 1))
        return {"y": a["w"] + 0 * noise, "s": lax.psum(a["w"].sum(), BOTH)}, outside, 3

    f = along(body, (P("x", "y"), P()), (P(), P(), P()))
    with pytest.raises(ValueError, match="replication"):
        f({"w": X}, xlab.random.key(0))
    f = along(body, (P("x", "y"), P()), ({"y": P("x", "y"), "s": P()}, P(), P()))
    a, b, c = f({"w": X}, xlab.random.key(0))
    assert np.array_equal(a["y"], X) and float(a["s"]) == 120
    assert np.array_equal(b, outside) and int(c) == 3


# -- disable_jit ------------------------------------------------------------------------------------------


def test_x33_disable_jit_steps_through_loops(along, capsys):
    def body(x):
        def step(c):
            print("step", lax.psum(c.sum(), BOTH) + 0)
            return c * 2

        return lax.while_loop(lambda c: lax.psum(c.sum(), BOTH) < 500, step, x)

    with xlab.disable_jit():
        assert np.array_equal(along(body)(X), X * 8)
    steps = [line for line in capsys.readouterr().out.splitlines() if line and line[0].isdigit()]
    assert steps == ["120.0", "240.0", "480.0"]


def test_x33_loops_go_on_where_devices_disagree(along):
    def body(x):
        doubled = lax.while_loop(lambda c: c.sum() < 20, lambda c: c * 2 + 1, x)
        return doubled + lax.cond(x.sum() > 10, lambda v: v, lambda v: -v, x)

    want = along(body)(X)
    with xlab.disable_jit():
        assert np.array_equal(along(body)(X), want)


@pytest.mark.parametrize("n", [1, 4])
def test_x33_pmap_runs_operation_by_operation(capsys, n):
    ran = []

    def body(x):
        ran.append(1)
        print(x)
        if lax.psum(1, "i") == n and lax.psum(x, "i").sum() >= 0:
            return jnp.where(x > 1, x + lax.psum(x, "i"), -x)
        raise AssertionError

    x = np.arange(2.0 * n, dtype=np.float32).reshape(n, 2)
    with xlab.disable_jit():
        got = xlab.pmap(body, "i")(x)
    assert np.array_equal(got, np.where(x > 1, x + x.sum(0), -x))
    assert ran == [1]
    assert "cpu:0 at mesh coordinates (i,) = (0,):\n[0. 1.]" in capsys.readouterr().out
    assert got.sharding.is_equivalent_to(xlab.pmap(lambda v: v)(x).sharding, 2)


def test_x33_eager_pmap_off_runs_one_program():
    with (
        xlab.disable_jit(),
        flag_context("eager_pmap", False),
        pytest.raises(xlab.errors.TracerBoolConversionError),
    ):
        xlab.pmap(lambda x: x if x > 0 else -x)(np.ones(2, np.float32))


def test_x33_nested_pmaps_show_all_axes(capsys):
    def inner(y):
        print(y)
        return y + lax.psum(y, "j") + 10 * lax.psum(y, "i") + 100 * lax.psum(y, ("i", "j"))

    f = xlab.pmap(xlab.pmap(inner, "j"), "i")
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    with xlab.disable_jit():
        got = f(x)
    assert got[0].tolist() == [2846, 2867, 2888, 2909]
    assert "On cpu:6 at mesh coordinates (i, j) = (1, 2):\n6.0" in capsys.readouterr().out


def test_x34_custom_rules_and_axis_index_under_disable_jit():
    x = np.arange(4, dtype=np.float32)
    with xlab.disable_jit():
        f = xlab.pmap(lambda v: _twice(v) + _cube(v) + lax.axis_index("i"), "i")
        assert np.array_equal(f(x), 2 * x + x**3 + np.arange(4))
        assert np.array_equal(xlab.grad(lambda v: f(v).sum())(x), np.full(4, 8.0))


@pytest.mark.parametrize("how", ["eager", "jit", "pmap"])
def test_x80_the_operation_that_makes_a_nan_is_found_in_the_body(along, how):
    def body(x):
        y = x * 2
        return jnp.log(y - 100)  # here

    f = {"eager": along(body), "jit": xlab.jit(along(body)), "pmap": xlab.pmap(body)}[how]
    with (
        xlab.debug_nans(True),
        pytest.raises(FloatingPointError, match=r"\(nan\).*in log at .*body"),
    ):
        f(X)


def test_references_keep_a_body_one_program(along):
    """They cannot be kept per device: such a body cannot be looked into, and runs under disable_jit."""

    def body(x):
        ref = xlab.new_ref(x)
        ref[...] = ref[...] * 2
        return ref[...]

    with xlab.disable_jit():
        assert np.array_equal(along(body)(X), 2 * X)
    with pytest.raises(xlab.errors.TracerBoolConversionError):
        along(lambda x: body(x) if lax.psum(body(x).sum(), BOTH) > 0 else x)(X)


@pytest.mark.parametrize("axes", [None, {"x"}])
def test_nested_bodies_and_abstract_meshes_are_looked_into(mesh, axes, capsys):
    def inner(v):
        print("inner", v.shape, v.sum())
        return v * 2 if lax.psum(v.sum(), BOTH) > 0 else v

    def outer(x):
        return xlab.shard_map(
            inner, in_specs=P(None, "y"), out_specs=P(None, "y"), axis_names={"y"}
        )(x)

    x = xlab.device_put(X, xlab.sharding.NamedSharding(mesh, P("x", "y")))
    spec = P("x", "y") if axes is None else P("x")
    f = xlab.shard_map(
        inner if axes is None else outer,
        mesh=mesh.abstract_mesh if axes is None else mesh,
        in_specs=spec,
        out_specs=spec,
        axis_names=axes or frozenset(),
    )
    assert np.array_equal(f(x), 2 * X)
    text = capsys.readouterr().out
    assert "inner (2, 1) On cpu:0 at mesh coordinates (x, y) = (0, 0):\n2.0\n" in text
    assert "On cpu:7 at mesh coordinates (x, y) = (3, 1):\n28.0\n" in text
