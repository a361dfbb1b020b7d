"""`extend.random`, `backend`, `sharding`, `mlir` and `source_info_util`: what extensions are made with."""

from __future__ import annotations

import functools
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.backend import client
from xlab.experimental import topologies
from xlab.extend import backend, mlir, random, sharding, source_info_util

U32 = np.uint32


def counting(**changes):
    """A generator whose bits are the sum of a key's words."""
    functions = {
        "seed": lambda s: jnp.stack([s.astype(U32)] * 3),
        "split": lambda k, shape: (
            jnp.broadcast_to(k, (*shape, 3))
            + jnp.arange(int(np.prod(shape)), dtype=U32).reshape(*shape, 1)
        ),
        "random_bits": lambda k, width, shape: jnp.broadcast_to(k.sum(), shape).astype(
            f"uint{width}"
        ),
        "fold_in": lambda k, data: k + data,
    }
    return random.define_prng_impl(
        key_shape=(3,), name="counting", tag="count", **functions | changes
    )


class TestGenerators:
    impl = counting()

    def key(self, seed=5):
        return xlab.random.key(seed, impl=self.impl)

    def test_keys(self):
        key = self.key()
        assert str(key.dtype) == "key<count>" and xlab.random.key_impl(key) is self.impl
        assert xlab.random.key_data(key).tolist() == [5, 5, 5]
        assert xlab.random.key_data(xlab.random.split(key, (2, 2))).tolist() == [
            [[5] * 3, [6] * 3],
            [[7] * 3, [8] * 3],
        ]
        assert xlab.random.key_data(xlab.random.fold_in(key, 3)).tolist() == [8, 8, 8]
        assert xlab.random.bits(key, (2,), "uint8").tolist() == [15, 15]
        assert xlab.random.key_data(random.seed_with_impl(self.impl, 2)).tolist() == [2, 2, 2]
        wrapped = xlab.random.wrap_key_data(np.ones((4, 3), U32), impl=self.impl)
        assert wrapped.shape == (4,) and xlab.random.key_dtype(self.impl) == wrapped.dtype
        assert (
            random.random_seed(np.arange(3), self.impl).shape == (3,)
            and random.random_seed(7, self.impl).shape == ()
        )

    def test_all_of_random_works(self):
        draws = [
            lambda k: xlab.random.normal(k, (2,)), lambda k: xlab.random.randint(k, (3,), 0, 9), lambda k: xlab.random.permutation(k, 4),
            lambda k: xlab.random.exponential(k), lambda k: xlab.random.bernoulli(k, 0.5, (2,)), lambda k: xlab.random.choice(k, 5, (2,)),
        ]  # fmt: skip
        together = xlab.jit(lambda k: [draw(k) for draw in draws])(self.key())
        for draw, drawn in zip(draws, together):
            np.testing.assert_allclose(draw(self.key()), drawn, rtol=1e-6)
        # Numbers that the reference gives for the same functions.
        np.testing.assert_allclose(together[0], [-5.419983, -5.419983])
        keys = xlab.random.split(self.key(), 3)
        many = xlab.vmap(lambda k, i: xlab.random.bits(xlab.random.fold_in(k, i), (2,)))(
            keys, np.arange(3, dtype=U32)
        )
        assert many.tolist() == [[15, 15], [21, 21], [27, 27]]
        assert xlab.vmap(lambda i: xlab.random.bits(xlab.random.fold_in(self.key(), i)))(
            np.arange(3)
        ).tolist() == [15, 18, 21]

    def test_two_of_one_tag_stay_apart(self):
        other = counting(random_bits=lambda k, width, shape: jnp.zeros(shape, f"uint{width}"))
        assert other.dtype != self.impl.dtype
        assert xlab.random.bits(xlab.random.key(1, impl=other), (2,)).tolist() == [0, 0]
        assert xlab.random.bits(self.key(1), (2,)).tolist() == [3, 3]

    @pytest.mark.parametrize(
        ("what", "use"),
        [("seed", lambda k: k), ("split", xlab.random.split), ("random_bits", xlab.random.bits), ("fold_in", lambda k: xlab.random.fold_in(k, 1))],
        ids=["seed", "split", "random_bits", "fold_in"],
    )  # fmt: skip
    def test_wrong_results(self, what, use):
        wrong = counting(**{what: lambda *args: jnp.zeros(7, np.float32)})
        with pytest.raises(
            TypeError, match=f"{what} of a random number generator gave f32\\[7\\], expected"
        ):
            use(xlab.random.key(0, impl=wrong))
        with pytest.raises(TypeError, match=f"{what} has to be a function"):
            counting(**{what: 3})

    def test_the_ones_there_are(self):
        for name, impl in (
            ("fry", random.threefry_prng_impl),
            ("rbg", random.rbg_prng_impl),
            ("urbg", random.unsafe_rbg_prng_impl),
        ):
            assert str(random.seed_with_impl(impl, 3).dtype) == f"key<{name}>"
        assert random.threefry2x32_p is xlab.random.threefry2x32_p
        pair = jnp.array([1, 2], U32)
        # Of the reference.
        assert random.threefry_2x32(pair, np.arange(5, dtype=U32)).tolist() == [
            2052595727,
            3504730591,
            2527474599,
            1880214352,
            1914734168,
        ]
        assert random.threefry_2x32(tuple(pair), np.arange(6, dtype=U32).reshape(2, 3)).tolist() == [
            [2052595727, 3504730591, 1038787879], [1880214352, 1914734168, 1027009547],
        ]  # fmt: skip
        with pytest.raises(TypeError, match="requires uint32 arguments"):
            random.threefry_2x32(pair, np.arange(5))


def test_backends():
    assert (
        list(backend.backends()) == ["cpu"]
        and backend.get_backend() is backend.get_backend("cpu") is xlab.devices()[0].client
    )
    assert (
        backend.get_default_device() == xlab.devices()[0] and backend.backend_xla_version() is None
    )
    with pytest.raises(RuntimeError, match="Unknown backend"):
        backend.get_backend("abacus")


@pytest.fixture
def second():
    """A platform of three devices beside the one there is."""
    made = []

    def make():
        made.append(client._jax.get_tfrt_cpu_client(num_devices=3))
        return made[-1]

    topology = lambda name, **options: SimpleNamespace(devices=[name, options])
    with pytest.warns(UserWarning, match=r"priority=\.\.\.\) has no effect"):
        backend.register_backend_factory(
            "second", make, priority=400, experimental=True, make_topology=topology
        )
    yield made
    client._platforms.clear()


def test_registered_platforms_are_asked_for_by_name(second):
    assert not second, "nobody asked for it"
    with pytest.warns(UserWarning, match="'second' is experimental"):
        made = backend.get_backend("second")
    assert second == [made] and backend.backends() == {
        "cpu": xlab.devices()[0].client,
        "second": made,
    }
    assert xlab.devices("second") == made.devices() == xlab.devices(made)
    assert xlab.local_device_count("second") == 3 and xlab.process_count("second") == 1
    x = xlab.device_put(np.arange(3.0), xlab.devices("second")[2])
    assert (x + 1).devices() == {made.devices()[2]} and xlab.live_arrays("second")
    found = topologies.get_topology_desc("v1:2x2", "second", cores=2)
    assert found.devices == ["v1:2x2", {"cores": 2}]
    assert xlab.default_backend() == "cpu" and xlab.devices()[0].client is not made
    with pytest.raises(
        RuntimeError, match="'third' requested, but the platforms present are 'cpu', 'second'"
    ):
        backend.get_backend("third")


def test_platforms_that_cannot_start_say_why(second):
    def broken():
        raise OSError("no such device")

    backend.register_backend_factory("quiet", broken)
    with pytest.warns(UserWarning, match="experimental"):
        assert list(backend.backends()) == ["cpu", "second"]
    backend.register_backend_factory("loud", lambda: None, fail_quietly=False)
    for name, words in (("quiet", "no such device"), ("loud", "made no client")):
        with pytest.raises(RuntimeError, match=f"Backend '{name}' failed to initialize: .*{words}"):
            xlab.devices(name)
    with pytest.raises(RuntimeError, match="Backend 'loud' failed"):
        backend.backends()
    for name, make, error in (
        ("cpu", broken, ValueError),
        ("quiet", broken, ValueError),
        ("x", 3, TypeError),
    ):
        with pytest.raises(error):
            backend.register_backend_factory(name, make)


def test_cleared_backends_are_made_anew_with_other_options():
    program = """
        import numpy as np, xlab
        from xlab.backend import client
        from xlab.extend import backend
        xlab.config.update("num_cpu_devices", 2)
        f = xlab.jit(lambda x: x * 2)
        old = xlab.device_put(np.arange(4.0), xlab.devices()[1])
        assert f(old).devices() == old.devices() and len(xlab.devices()) == 2
        before = backend.get_backend()
        backend.clear_backends()
        xlab.config.update("num_cpu_devices", 3)
        assert len(xlab.devices()) == 3 and backend.get_backend() is not before
        assert f(np.arange(4.0)).devices() == {xlab.devices()[0]}
        assert np.asarray(old).tolist() == [0, 1, 2, 3] and old.devices() == {before.devices()[1]}
        assert f(xlab.device_put(old, xlab.devices()[2])).devices() == {xlab.devices()[2]}
        assert f(old).devices() == old.devices()
        backend.clear_backends()
        backend.clear_backends()
        assert float(xlab.numpy.ones(3).sum()) == 3
        # A client that was made in another way, as those of several processes are, is made in that way again.
        backend.clear_backends()
        native = client._jax.get_tfrt_cpu_client
        client.use_client(lambda num_devices: native(num_devices=num_devices + 2))
        assert len(xlab.devices()) == 5
        backend.clear_backends()
        assert len(xlab.devices()) == 5
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_options_of_a_program_take_devices_or_their_ids():
    d = xlab.devices()
    for given in ([3, 2], d[3:1:-1], np.array([[3], [2]])):
        assert backend.get_compile_options(2, 1, given).device_assignment.replica_count() == 2
    for wrong in ([3, 2], [[3], [2]], np.array([[[3, 2]]])):
        with pytest.raises(ValueError, match=r"of shape \(1, 2\)"):
            backend.get_compile_options(1, 2, wrong)
    assert hasattr(backend.ifrt_proxy, "get_client")
    assert not hasattr(backend, "nonsense")


def test_programs_compiled_by_hand():
    from xlab.backend.client import DeviceList

    lowered = xlab.jit(lambda x: x + 1).lower(np.float32(1)).as_text()
    client, options = (
        backend.get_backend(),
        backend.get_compile_options(1, 1, [[xlab.devices()[-1].id]]),
    )
    made = client.compile_and_load(lowered, DeviceList((xlab.devices()[-1],)), options)
    assert made.local_devices() == [xlab.devices()[-1]]
    for given in ([[0, 1]], [[99]]):
        with pytest.raises(ValueError, match="1 replicas of 1 partitions need as many ids"):
            backend.get_compile_options(1, 1, given)
    assert backend.get_compile_options(
        1, 1, env_options_overrides={"xla_cpu_enable_fast_math": True}
    ).env_option_overrides


def test_caches_of_extensions():
    calls = []

    @functools.lru_cache
    def made(n):
        calls.append(n)
        return n

    backend.register_backend_cache(made, "a test")
    made(1), made(1)
    backend.clear_in_memory_compilation_cache()
    made(1)
    assert calls == [1, 1]
    with pytest.raises(TypeError, match="the cache for words has to have a method cache_clear"):
        backend.register_backend_cache({}, "words")


def test_shardings_as_bytes():
    mesh = xlab.make_mesh((1,), ("x",))
    tiling = xlab.NamedSharding(mesh, xlab.P("x"))._to_xla_hlo_sharding(1)
    data = sharding.get_serialized_proto_from_hlo_sharding(tiling)
    assert sharding.get_hlo_sharding_from_serialized_proto(data) == tiling
    assert sharding.get_op_sharding_from_serialized_proto(data).SerializeToString() == data
    assert sharding.GSPMDSharding(xlab.devices()[:1], tiling).is_fully_replicated


def test_modules_as_bytes():
    text = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"
    assert "tensor<4xf32>" in mlir.deserialize_portable_artifact(
        mlir.serialize_portable_artifact(text)
    )
    dynamic = (
        "func.func private @f(%a: tensor<?xf32>) -> tensor<?xf32> { %b = stablehlo.add %a, %a : tensor<?xf32> return %b : tensor<?xf32> }"
        "func.func public @main(%a: tensor<4xf32>) -> tensor<?xf32> { %b = stablehlo.convert %a : (tensor<4xf32>) -> tensor<?xf32> "
        "%c = func.call @f(%b) : (tensor<?xf32>) -> tensor<?xf32> return %c : tensor<?xf32> }"
    )
    from xlab.extend.mlir import dialects
    from xlab.extend.mlir.ir import Module
    from xlab.extend.mlir.passmanager import PassManager

    assert (
        hasattr(PassManager, "parse")
        and dialects.stablehlo.AddOp.OPERATION_NAME == "stablehlo.add"
        and hasattr(Module, "parse")
    )
    blob = mlir.refine_polymorphic_shapes(dynamic)
    assert "?" not in mlir.deserialize_portable_artifact(mlir.serialize_portable_artifact(blob))
    module = (
        xlab.jit(lambda x: x * 2)
        .lower(np.ones(3, np.float32))
        .compiler_ir("hlo")
        .as_serialized_hlo_module_proto()
    )
    assert b"main" in mlir.hlo_to_stablehlo(module)


def test_dialects_are_modules():
    from importlib import import_module

    import xlab.extend.mlir.dialects.stablehlo as hlo
    from xlab.extend.mlir import dialects
    from xlab.extend.mlir.dialects.func import FuncOp

    assert dialects.stablehlo is hlo
    assert (hlo.AddOp.OPERATION_NAME, FuncOp.OPERATION_NAME) == ("stablehlo.add", "func.func")
    for name in ("sdy", "chlo", "mpmd", "builtin"):
        module = import_module(f"xlab.extend.mlir.dialects.{name}")
        assert getattr(dialects, name) is module
        assert any(n.endswith("Op") for n in dir(module))
    assert dialects.llvm.__name__ == "jaxlib.mlir.dialects.llvm"
    with pytest.raises(AttributeError, match="no MLIR dialect 'nosuch'"):
        dialects.nosuch


def test_places():
    place = source_info_util.current()
    assert __file__.rsplit("/", 1)[-1] in source_info_util.summarize(place)
    with source_info_util.extend_name_stack("a"), source_info_util.extend_name_stack("b"):
        assert (
            source_info_util.current_name_stack() == "a/b" == source_info_util.current().name_stack
        )
        with source_info_util.reset_name_stack():
            assert source_info_util.current_name_stack() == source_info_util.new_name_stack() == ""
            with source_info_util.set_name_stack(source_info_util.new_name_stack("c")):
                assert source_info_util.current_name_stack() == "c"
        assert source_info_util.current_name_stack() == "a/b"

    def f(x):
        with source_info_util.user_context(place):
            return x + 1

    (eqn,) = xlab.make_jaxpr(f)(1.0).eqns
    assert source_info_util.summarize(eqn.source_info) == source_info_util.summarize(place)
    assert source_info_util.summarize(source_info_util.new_source_info()) == "an unknown place"


def test_an_interpreter_keeps_scopes_and_what_surrounds_equations():
    """As programs write them: each equation bound again, under its own place and context."""
    from xlab.experimental.compute_on import compute_on
    from xlab.experimental.xla_metadata import set_xla_metadata
    from xlab.extend.core import Literal

    def f(x):
        with set_xla_metadata(stage="first"):
            y = x * 2
        with xlab.named_scope("inner"), compute_on("device_host"):
            return y + 1

    closed = xlab.make_jaxpr(f)(1.0)

    def interpreted(x, named=True):
        env = dict(zip(closed.jaxpr.invars, [x]))
        read = lambda v: v.val if isinstance(v, Literal) else env[v]
        for eqn in closed.jaxpr.eqns:
            stack = source_info_util.current_name_stack() + eqn.source_info.name_stack
            place = eqn.source_info.traceback if named else None
            with (
                source_info_util.user_context(place, name_stack=stack if named else None),
                eqn.ctx.manager,
            ):
                env[eqn.outvars[0]] = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
        return env[closed.jaxpr.outvars[0]]

    def outer(x):
        with xlab.named_scope("outer"):
            return interpreted(x)

    again = xlab.make_jaxpr(outer)(1.0)
    for new, old in zip(again.eqns, closed.eqns):
        assert new.ctx == old.ctx and new.source_info.position() == old.source_info.position()
        assert new.source_info.name_stack == "/".join(
            filter(None, ["outer", old.source_info.name_stack])
        )
    assert [e.ctx for e in xlab.make_jaxpr(lambda x: interpreted(x, False))(1.0).eqns] == [
        e.ctx for e in closed.eqns
    ]
    text = xlab.jit(outer).lower(1.0).as_text()
    assert 'stage = "first"' in text and '_xla_compute_type = "host"' in text
    assert xlab.make_jaxpr(lambda x: x + 1)(1.0).eqns[0].ctx.annotations == ()
    stack = source_info_util.NameStack("a") + source_info_util.new_name_stack() + "b"
    assert stack.extend("c") == "a/b/c" and isinstance(stack, source_info_util.NameStack)
