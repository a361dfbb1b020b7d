"""`debug.inspect_array_sharding` and `visualize_array_sharding` inside of programs: told what the compiler chose, when it compiles."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import debug, lax, observe
from xlab.sharding import AxisType, NamedSharding
from xlab.sharding import PartitionSpec as P


def mesh(kind=AxisType.Auto):
    return xlab.make_mesh((4, 2), ("x", "y"), axis_types=(kind,) * 2)


def put(*spec, kind=AxisType.Auto):
    values = np.arange(64, dtype=np.float32).reshape(8, 8)
    return xlab.device_put(values, NamedSharding(mesh(kind), P(*spec)))


def inspected(fun, *args):
    """The specs that one call of the compiled `fun(look, *args)` is told."""
    seen = []
    out = xlab.jit(lambda *xs: fun(_looking(seen), *xs))(*args)
    return [s.spec if isinstance(s, NamedSharding) else s for s in seen], out


def _looking(seen):
    return lambda x: debug.inspect_array_sharding(x, callback=seen.append)


def test_the_callback_is_told_once_per_compile_what_the_compiler_chose():
    seen, x = [], put("x", "y")
    look = _looking(seen)

    @xlab.jit
    def f(x):
        look(x.T)
        y = x @ x
        look(y)
        return y + 1

    np.testing.assert_allclose(f(x), np.asarray(x) @ np.asarray(x) + 1)
    f(x)
    assert [s.spec for s in seen] == [P("y", "x"), P("x", "y")]
    assert seen[0].mesh == mesh() and seen[0].memory_kind == "device"
    f(put("y"))  # another program, with shardings of its own
    assert [s.spec for s in seen[2:]] == [P(None, "y"), P("y")]


def test_results_are_those_of_the_program_without_it():
    x = put("x", "y")

    def f(x, look=lambda x: None):
        def step(c, row):
            look(c)
            return jnp.sin(c) + row, c

        return lax.scan(step, x[0], x)

    with_look, out = inspected(lambda look, x: f(x, look), x)
    for a, b in zip(out, xlab.jit(f)(x)):
        np.testing.assert_array_equal(a, b)
        assert a.sharding == b.sharding
    assert with_look == [P("y")]


@pytest.mark.parametrize(
    ("name", "fun", "expected"),
    [
        ("grad", lambda look, x: xlab.grad(lambda x: (look(x), jnp.sum(x * x))[1])(x), P("x", "y")),
        ("vjp", lambda look, x: xlab.vjp(lambda x: (look(x.T), x)[1], x)[1](x), P("y", "x")),
        ("vmap", lambda look, x: xlab.vmap(lambda r: (look(r), jnp.sin(r))[1])(x), P("x", "y")),
        ("jit", lambda look, x: xlab.jit(lambda x: (look(x), x)[1])(x), P("x", "y")),
        ("cond", lambda look, x: lax.cond(x[0, 0] < 1, lambda x: (look(x), x)[1], lambda x: x, x), P("x", "y")),
        ("checkpoint", lambda look, x: xlab.grad(xlab.checkpoint(lambda x: (look(x), jnp.sum(x**3))[1]))(x), P("x", "y")),
    ],
)  # fmt: skip
def test_under_transformations(name, fun, expected):
    assert set(inspected(fun, put("x", "y"))[0]) == {expected}


def test_along_explicit_axes_it_is_that_of_the_type():
    types = []

    def f(look, x):
        types.append(xlab.typeof(x.T).sharding.spec)
        look(x.T)

    x = put("x", "y", kind=AxisType.Explicit)
    assert inspected(f, x)[0] == types == [P("y", "x")]
    xlab.jit(lambda x: debug.inspect_array_sharding(x, callback=types.append))(x)
    assert types[-1] == x.sharding


def test_in_a_shard_map_it_is_that_of_a_devices_part():
    x, seen = put("x", "y"), []
    look = _looking(seen)

    def body(x):
        look(x)
        return x

    whole, part = P("x", "y"), P("x")
    xlab.jit(xlab.shard_map(body, mesh=mesh(), in_specs=whole, out_specs=whole))(x)
    xlab.jit(xlab.shard_map(body, mesh=mesh(), in_specs=part, out_specs=part, axis_names={"x"}))(x)
    assert [s.spec for s in seen] == [P(), P(None, "y")]
    assert [s.mesh.manual_axes for s in seen] == [("x", "y"), ("x",)]


def test_on_one_device_and_outside_of_programs():
    seen = []
    look = _looking(seen)
    x = jnp.ones(3)
    xlab.jit(lambda x: look({"a": x, "b": 2 * x}))(x)
    assert seen == [x.sharding] * 2
    look(x)
    look(put("x"))
    xlab.grad(lambda x: (look(x), x.sum())[1])(x)
    xlab.vmap(look)(x)
    assert seen[2:] == [x.sharding, put("x").sharding, x.sharding, x.sharding]
    keys = xlab.device_put(xlab.random.split(xlab.random.key(0), 8), NamedSharding(mesh(), P("x")))
    xlab.jit(look)(keys)
    assert seen[-1].spec == P("x")


def test_looking_at_the_program_calls_nobody():
    seen, x = [], put("x", "y")
    look = _looking(seen)
    f = xlab.jit(lambda x: (look(x), x @ x)[1])
    lowered = f.lower(x)
    assert seen == [] and "inspect_sharding" in str(f.trace(x).jaxpr)
    program = observe.program(f, x)
    assert "inspect_sharding" in str(program) and observe.passes(f, x)
    told = len(seen)  # at most once: of the program itself
    assert told <= 1
    lowered.compile()
    assert [s.spec for s in seen] == [P("x", "y")] * (told + 1)


def test_what_the_callback_raises_is_raised_by_the_call():
    def refuse(sharding):
        raise KeyError("not like this")

    f = xlab.jit(lambda x: debug.inspect_array_sharding(x, callback=refuse))
    for _ in range(2):
        with pytest.raises(KeyError, match="not like this"):
            f(put("x"))
    with pytest.raises(TypeError, match="a function as its callback, got 3"):
        debug.inspect_array_sharding(jnp.ones(3), callback=3)
    with pytest.raises(TypeError, match=r"given ndarray, f32\[3\]"):
        debug.inspect_array_sharding(np.ones(3, np.float32), callback=print)
    with pytest.raises(NotImplementedError, match="effects exist only in this process"):
        xlab.export.export(f)(put("x"))


def test_traced_values_are_drawn_as_arrays_are(capsys):
    x = put("x", "y")
    debug.visualize_array_sharding(x)
    plain = capsys.readouterr().out
    f = xlab.jit(lambda x: (debug.visualize_array_sharding(x), x + 1)[1])
    f(x)
    f(x)
    assert capsys.readouterr().out == plain != ""
