"""Buffers that are given away: what becomes of the array, and what whoever uses it again is told."""

import functools
import gc
import inspect
import weakref

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.backend import arrays as _arrays
from xlab.sharding import AxisType, NamedSharding, SingleDeviceSharding
from xlab.sharding import PartitionSpec as P


@pytest.fixture
def mesh():
    return xlab.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


@pytest.fixture(params=["one", "many", "communicating"])
def kind(request):
    return request.param


def made(kind, mesh, value=1.0):
    x = np.full(8, value, np.float32)
    return (
        xlab.device_put(x)
        if kind == "one"
        else xlab.device_put(x, NamedSharding(mesh, P(("x", "y"))))
    )


def taking(kind):
    """A function that is given its argument; on several devices also one in which these wait for one another."""
    return xlab.jit(
        (lambda v: v + v.sum()) if kind == "communicating" else (lambda v: v + 1), donate_argnums=0
    )


def line() -> int:
    return inspect.currentframe().f_back.f_lineno


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_the_error_names_the_type_the_call_and_its_line(kind, mesh, turns):
    f, again, x = taking(kind), xlab.jit(lambda v: v * 2), made(kind, mesh)
    for _ in range(3):
        again(made(kind, mesh))
    for _ in range(turns):
        f(made(kind, mesh))
    here = line() + 1
    f(x)
    for use in (
        f,
        again,
        np.asarray,
        lambda v: v + 1,
        lambda v: v.addressable_shards,
        str,
        lambda v: v.block_until_ready(),
        lambda v: v.is_ready(),
        lambda v: xlab.device_put(v, xlab.devices()[1]),
        lambda v: again.lower(v).compile()(v),
        lambda v: xlab.block_until_ready([v]),
    ):
        with pytest.raises(
            RuntimeError, match=rf"f32\[8\].*donated.*jit\(<lambda>\) at .*test_donation.py:{here} "
        ) as caught:
            use(x)
        assert caught.type is RuntimeError
    assert repr(x).endswith("deleted)") and x.shape == (8,) and x.format.layout is not None


def test_deleting_is_told_apart(kind, mesh):
    x = made(kind, mesh)
    here = line() + 1
    x.delete()
    with pytest.raises(RuntimeError, match=rf"was deleted: x\.delete\(\) at .*:{here} "):
        x + 1
    x.delete()


def test_a_program_compiled_ahead_leaves_the_same_word(kind, mesh):
    x = made(kind, mesh)
    here = line() + 1
    taking(kind).lower(x).compile()(x)
    with pytest.raises(RuntimeError, match=f":{here} "):
        x + 1


def test_keys_and_trees(mesh):
    f = xlab.jit(
        lambda t: {"a": t["a"] + 1, "k": xlab.random.split(t["k"], 1)[0]}, donate_argnums=0
    )
    t = {"a": jnp.ones(3), "k": xlab.random.key(0)}
    for _ in range(3):
        t, old = f(t), t
    for x in (lambda: old["a"] + 1, lambda: xlab.random.bits(old["k"]), lambda: f(old)):
        with pytest.raises(RuntimeError, match=r"jit\(<lambda>\) at"):
            x()


@pytest.mark.parametrize("warm", [False, True])
def test_one_array_twice(kind, mesh, warm):
    both = xlab.jit(lambda a, b: (a + 1, b + b.sum()), donate_argnums=(0, 1))
    first = xlab.jit(lambda a, b: a + b.sum(), donate_argnums=0)
    for f, said in ((both, "both are donated"), (first, "`a` is donated")):
        for _ in range(3 if warm else 0):
            f(made(kind, mesh), made(kind, mesh))
        x = made(kind, mesh)
        with pytest.raises(RuntimeError, match=rf"type f32\[8\], as `a` and as `b`, and {said}"):
            f(x, x)
        with pytest.raises(RuntimeError, match=said):
            f.lower(x, x).compile()(x, x)
        assert not x.is_deleted() and float(x.sum()) == 8.0
        np.testing.assert_allclose(
            f(x, made(kind, mesh))[0] if f is both else f(x, made(kind, mesh)),
            2.0 if f is both else 9.0,
        )


def test_which_arguments_are_taken():
    """By number, from either end, by name, between static ones; what is not donated stays."""
    for options, call, taken in (
        ({"donate_argnums": 0}, lambda f, a, b, c: f(a, b, c), "a"),
        ({"donate_argnums": (0, 2)}, lambda f, a, b, c: f(a, b, c=c), "ac"),
        ({"donate_argnames": "b"}, lambda f, a, b, c: f(a, b, c), "b"),
        ({"donate_argnames": ("b", "c")}, lambda f, a, b, c: f(a, c=c, b=b), "bc"),
        ({"donate_argnums": -1}, lambda f, a, b, c: f(a, b, c), "c"),
    ):
        f = xlab.jit(lambda a, b, c: (a + 1, b + 2, c + 3), **options)
        for _ in range(3):
            given = {k: jnp.full(8, i, np.float32) for i, k in enumerate("abc")}
            out = call(f, *given.values())
            assert "".join(k for k, v in given.items() if v.is_deleted()) == taken
            np.testing.assert_array_equal(np.stack(out), np.full((3, 8), [[1], [3], [5]]))
            for k in taken:
                with pytest.raises(RuntimeError, match=r"jit\(<lambda>\) at"):
                    given[k] + 1
    rest = xlab.jit(lambda *xs: [x + 1 for x in xs[:-1]], donate_argnums=-2, static_argnums=-1)
    for _ in range(3):
        a, b = jnp.ones(8), jnp.ones(8)
        rest(a, b, "static")
        assert b.is_deleted() and not a.is_deleted()


@pytest.mark.parametrize(("static", "donated"), [(-2, 1), ((2,), -1), (-1, -2), ((0, -1), 1)])
def test_positions_from_either_end_among_any_number_of_arguments(static, donated):
    f = xlab.jit(
        lambda *xs: [x + 1 for x in xs if isinstance(x, xlab.Array)],
        static_argnums=static,
        donate_argnums=donated,
    )
    numbers = [static] if isinstance(static, int) else static
    fixed = {n % 3 for n in numbers}
    taken = {donated % 3} - fixed
    for _ in range(3):
        xs = ["static" if i in fixed else jnp.ones(8) for i in range(3)]
        given = [d for x in xlab.tree.leaves(f.lower(*xs).args_info) for d in [x.donated]]
        f(*xs)
        assert given == [i in taken for i in range(3) if i not in fixed]
        for i in {*range(3)} - fixed:
            assert xs[i].is_deleted() == (i in taken)


def test_a_jit_that_donates_is_a_jit():
    f = xlab.jit(lambda v: v + 1, donate_argnums=0)
    for _ in range(3):
        f(jnp.ones(8))
    assert (
        f._cache_size() == 1
        and f.__name__ == "<lambda>"
        and "_cache_size" not in vars(xlab.grad(f))
    )
    assert float(xlab.grad(lambda v: f(v).sum())(jnp.float32(1))) == 1.0
    assert xlab.make_jaxpr(f)(jnp.ones(8)).eqns[0].params["donated_invars"] == (True,)

    class Model:
        @functools.partial(xlab.jit, donate_argnums=1, static_argnums=0)
        def step(self, v):
            return v + 1

    x = jnp.ones(8)
    assert Model().step(x)[0] == 2.0 and x.is_deleted()
    y = jnp.ones(8)
    with xlab.disable_jit():
        f(y)
    assert not y.is_deleted()
    f.clear_cache()
    assert f._cache_size() == 0 and float(f(y)[0]) == 2.0


@pytest.mark.parametrize("options", [{}, {"donate_argnums": 0}])
def test_an_object_that_holds_a_jit_of_its_method_is_freed(options):
    class Model:
        def __init__(self):
            self.step = xlab.jit(self.plain_step, **options)

        def plain_step(self, v):
            return v + 1

    model = Model()
    model.step(jnp.ones(8))
    seen = weakref.ref(model)
    del model
    gc.collect()
    assert seen() is None


def test_the_line_is_that_of_a_users_call_in_records_too():
    from xlab.compile.history import ledger

    f = xlab.jit(xlab.grad(lambda v: (v**3).sum()), donate_argnums=0)
    f(jnp.ones(8))
    entry = ledger.entries[-1]
    assert (
        entry.name == "<lambda>"
        and not entry.eager
        and "test_donation.py" in entry.position
        and entry.made_by == ("grad",)
    )


def test_twice_where_nothing_is_taken():
    x = jnp.ones(8)
    f = xlab.jit(lambda a, b: a.sum() + b.sum(), donate_argnums=0)
    with pytest.warns(UserWarning, match="not usable"):
        assert f(x, x) == 16.0
    assert f(x, x) == 16.0
    assert not x.is_deleted()


def test_the_same_array_twice_stays_on_the_warm_path_where_it_is_not_taken(mesh, monkeypatch):
    f = xlab.jit(lambda v, a, b: v + a * b, donate_argnums=0)
    x = xlab.device_put(np.ones(8, np.float32))
    mirrored = xlab.make_array_from_single_device_arrays(
        (8,), SingleDeviceSharding(xlab.devices()[0]), [x]
    )
    for a, b in ((x, x), (1, 1), (mirrored, 2), (x, mirrored)):
        f(made("one", mesh), a, b)
        with monkeypatch.context() as m:
            m.setattr(
                type(f._xlab_jit), "program", lambda *_: pytest.fail("a warm call was traced again")
            )
            f(made("one", mesh), a, b)
    with pytest.raises(RuntimeError, match="arrays that share their buffers"):
        f(x, mirrored, 1)


def test_arrays_that_share_buffers_go_together(mesh):
    f, g = xlab.jit(lambda v: v + 1, donate_argnums=0), xlab.jit(lambda v: v * 2)
    cut, other = (
        NamedSharding(mesh, P(("x", "y"))),
        xlab.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,)),
    )
    for take in (lambda x: x, lambda x: x.addressable_shards[3].data):
        x = xlab.device_put(np.arange(8.0, dtype=np.float32), cut)
        same = xlab.device_put(x, NamedSharding(other, P("i")))
        parts = [s.data for s in x.addressable_shards]
        g(same), g(x), f(take(xlab.device_put(np.zeros(8, np.float32), cut)))
        f(take(x))
        for y in (x, same, parts[3]):
            with pytest.raises(RuntimeError, match="test_donation"):
                g(y)
            assert y.sharding is not None and y.dtype == np.float32
    assert float(parts[0][0]) == 0.0  # of the second round: its own buffer, which nobody took


def test_what_shares_buffers_is_forgotten_with_the_arrays(mesh):
    import gc

    gc.collect()
    before = len(_arrays.sharing)
    x = xlab.device_put(np.arange(8.0, dtype=np.float32), NamedSharding(mesh, P(("x", "y"))))
    assert len([s.data for s in x.addressable_shards]) == 8 and len(_arrays.sharing) > before
    del x
    gc.collect()
    assert len(_arrays.sharing) == before


def test_memories_are_looked_at():
    device = SingleDeviceSharding(xlab.devices()[0])
    host = device.with_memory_kind("pinned_host")
    x = xlab.device_put(np.arange(8, dtype=np.float32), device)
    with pytest.warns(UserWarning, match="not usable"):
        out = xlab.jit(lambda v: v * 2, donate_argnums=0, out_shardings=host)(x)
    assert out.sharding.memory_kind == "pinned_host" and not x.is_deleted()
    h = xlab.device_put(x, host)
    with pytest.warns(UserWarning, match="not usable"):
        out = xlab.jit(lambda v: v * 2, donate_argnums=0, out_shardings=device)(h)
    assert out.sharding.memory_kind == "device" and not h.is_deleted()
    out = xlab.jit(lambda v: v * 2, donate_argnums=0, out_shardings=host)(h)
    np.testing.assert_array_equal(out, np.arange(8) * 2)
    assert h.is_deleted() and out.sharding.memory_kind == "pinned_host"


def test_a_result_of_other_type_but_as_many_bytes_takes_the_buffer():
    for f in (lambda v: v.reshape(2, 4) * 2, lambda v: v.astype(np.int32)):
        x = jnp.arange(8.0)
        xlab.jit(f, donate_argnums=0)(x)
        assert x.is_deleted()


def test_nan_checks_keep_arguments():
    f = xlab.jit(lambda v: xlab.numpy.log(v), donate_argnums=0)
    x = jnp.ones(3)
    ahead = f.lower(x).compile()
    f(jnp.ones(3)), f(jnp.ones(3))
    with xlab.debug_nans(True):
        for call in (f, ahead):
            bad = -jnp.ones(3)
            with pytest.raises(FloatingPointError, match="log"):
                call(bad)
            assert not bad.is_deleted()
            good = jnp.ones(3)
            call(good)
            assert not good.is_deleted()


def test_many_devices_are_one_buffer_to_nobody(mesh):
    x = made("many", mesh)
    with pytest.raises(BufferError, match="8 devices"):
        np.from_dlpack(x)
    np.testing.assert_array_equal(np.from_dlpack(x.addressable_shards[0].data), [1.0])


class TestOpenShardings:
    """`UNCONSTRAINED` dimensions: only the compiled program says how such a result lies."""

    def test_results_lie_as_they_say(self, mesh):
        x = xlab.device_put(
            np.arange(64, dtype=np.float32).reshape(8, 8), NamedSharding(mesh, P("x"))
        )
        f = xlab.jit(lambda v: v * 2, out_shardings=NamedSharding(mesh, P(P.UNCONSTRAINED, "y")))
        for run in (f, f.lower(x).compile(), f):
            y = run(x)
            assert P.UNCONSTRAINED not in y.sharding.spec
            assert {s.data.shape for s in y.addressable_shards} == {
                y.sharding.shard_shape(y.shape)
            } and y.sharding.spec[1] == "y"
            np.testing.assert_array_equal(xlab.jit(lambda v: v + 1)(y), np.asarray(x) * 2 + 1)

    def test_arguments(self, mesh):
        x = np.arange(64, dtype=np.float32).reshape(8, 8)
        f = xlab.jit(lambda v: v * 2, in_shardings=NamedSharding(mesh, P(P.UNCONSTRAINED, "y")))
        for _ in range(3):
            y = f(x)
            np.testing.assert_array_equal(y, x * 2)
            np.testing.assert_array_equal(xlab.jit(lambda v: v + 1)(y), x * 2 + 1)

    def test_an_array_whose_own_sharding_is_open(self, mesh):
        x = xlab.make_array_from_callback(
            (8, 8),
            NamedSharding(mesh, P(P.UNCONSTRAINED, "y")),
            lambda i: np.ones((8, 8), np.float32)[i],
        )
        for _ in range(3):
            np.testing.assert_array_equal(xlab.jit(lambda v: v + 1)(x), np.full((8, 8), 2))
