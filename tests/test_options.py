"""Options that change what happens: each context does what its name says, and stops doing it afterwards."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax, observe
from xlab.config import check_thread, config, flag_context
from xlab.sharding import AxisType, NamedSharding
from xlab.sharding import PartitionSpec as P


def auto_mesh(n=4):
    return xlab.make_mesh((n,), ("i",), axis_types=(AxisType.Auto,))


# -- tracing ------------------------------------------------------------------------------------------------


def test_no_tracing():
    f = xlab.jit(lambda x: x + 1)
    x, longer = jnp.ones(3), jnp.ones(4)
    f(x)
    with xlab.no_tracing():
        assert f(x).tolist() == [2, 2, 2]
        with pytest.raises(
            RuntimeError, match="re-tracing function <lambda> for `jit`, but 'no_tracing' is set"
        ):
            f(longer)
        with pytest.raises(RuntimeError, match="no_tracing"):
            xlab.make_jaxpr(lambda x: x)(x)
    assert f(jnp.ones(4)).shape == (4,)


def test_user_contexts_are_part_of_the_key():
    style = xlab.make_user_context("plain")
    seen = []

    @xlab.jit
    def f(x):
        seen.append(style.value)
        return x

    f(1.0)
    for value in ("bold", "thin", "bold"):
        with style(value):
            assert style.value == value
            f(1.0)
    f(1.0)
    assert seen == ["plain", "bold", "thin"] and style.value == "plain"
    with pytest.raises(TypeError, match="unhashable"):
        style([1])
    other = xlab.make_user_context()
    with style("bold"), other(1):
        assert (style.value, other.value) == ("bold", 1)


def test_enable_checks():
    from xlab.core.primitive import Primitive

    lying = Primitive("lying", hidden=True)
    answers = iter([xlab.typeof(jnp.ones(2)), xlab.typeof(jnp.ones(3))] * 2)
    lying.def_abstract_eval(lambda x: next(answers))

    def trace():
        lying.clear_cache()

        def f(x):
            y = lying.bind(x)
            lying.clear_cache()
            return y

        return xlab.make_jaxpr(f)(1.0)

    assert config.enable_checks is False
    checked = config.check_jaxpr
    config.update("check_jaxpr", False)
    try:
        trace()
        with xlab.enable_checks(), pytest.raises(xlab.errors.JaxprTypeError, match="lying"):
            trace()
    finally:
        config.update("check_jaxpr", checked)


# -- arithmetic ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_allow_f16_reductions(dtype):
    x = jnp.ones(8, dtype)
    with xlab.allow_f16_reductions(False):
        for f in (
            lambda x: lax.reduce_sum(x, (0,)),
            xlab.jit(lambda x: lax.reduce_sum_p.bind(x, axes=(0,), out_sharding=None)),
        ):
            with pytest.raises(
                ValueError,
                match=re.escape(f"reduce_sum on operand {xlab.typeof(x)} is not allowed"),
            ):
                f(x)
        assert float(jnp.sum(x)) == 8.0 and float(lax.reduce_sum(x.astype("float32"), (0,))) == 8.0
    assert float(lax.reduce_sum(x, (0,))) == 8.0


def test_softmax_custom_jvp():
    x, t = jnp.array([0.5, -1.0, 2.0]), jnp.array([1.0, 2.0, -1.0])
    mask = np.array([True, False, True])

    def f(x):
        return (
            xlab.nn.softmax(x),
            xlab.nn.softmax(x, where=mask),
            xlab.nn.softmax(jnp.stack([x, x]), axis=0),
        )

    want, want_t = xlab.jvp(f, (x,), (t,))
    assert "custom_jvp_call" not in str(xlab.make_jaxpr(f)(x))
    with xlab.softmax_custom_jvp():
        text = str(xlab.make_jaxpr(f)(x))
        assert text.count("custom_jvp_call[") == 3 and "name=_softmax" in text
        got, got_t = xlab.jvp(f, (x,), (t,))
        grads = xlab.grad(lambda x: (f(x)[0] * t).sum())(x)
    for a, b in zip([*want, *want_t], [*got, *got_t], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    np.testing.assert_allclose(grads, xlab.grad(lambda x: (f(x)[0] * t).sum())(x), atol=1e-6)


def test_cumulative_scans():
    def text():
        return xlab.jit(lambda x: lax.cumsum(x)).lower(jnp.ones(8)).as_text()

    assert "reduce_window" in text()
    with xlab.jax2tf_associative_scan_reductions(True):
        assert "reduce_window" not in text()
        assert lax.cumsum(jnp.arange(7.0)).tolist() == np.arange(7.0).cumsum().tolist()
        assert lax.cummax(jnp.array([1.0, 3.0, 2.0]), reverse=True).tolist() == [3.0, 3.0, 2.0]


def test_legacy_keys():
    raw, key = xlab.random.PRNGKey(0), xlab.random.key(0)
    calls = (xlab.random.uniform, xlab.random.split, lambda k: xlab.random.fold_in(k, 1))
    with xlab.legacy_prng_key("error"):
        assert xlab.random.PRNGKey(0).shape == (2,)
        for call in calls:
            call(key)
            with pytest.raises(ValueError, match="Legacy uint32 key array"):
                call(raw)
    with xlab.legacy_prng_key("warn"), pytest.warns(UserWarning, match="Legacy uint32 key array"):
        xlab.random.uniform(raw)
    with warnings.catch_warnings(action="error"):
        xlab.random.uniform(raw)
    with pytest.raises(ValueError, match="legacy_prng_key"):
        xlab.legacy_prng_key("never")


# -- meshes -------------------------------------------------------------------------------------------------


def test_auto_pcast():
    def run(f):
        return xlab.shard_map(f, mesh=auto_mesh(), in_specs=(P("i"), P()), out_specs=P("i"))(
            jnp.arange(8.0), jnp.ones(2)
        )

    assert run(lambda x, y: x + y).shape == (8,)
    with xlab.auto_pcast(False):
        with pytest.raises(
            ValueError, match="Primitive add requires varying manual axes to match.*pcast"
        ):
            run(lambda x, y: x + y)
        assert (
            run(lambda x, y: x + lax.pcast(y, "i", to="varying")).tolist()
            == np.arange(1.0, 9.0).tolist()
        )


def test_size_one_axes_of_types():
    sharding = NamedSharding(
        xlab.make_mesh((4, 1), ("i", "j"), axis_types=(AxisType.Explicit,) * 2), P(("i", "j"))
    )
    assert str(xlab.typeof(xlab.device_put(jnp.arange(8.0), sharding))) == "float32[8@(i,j)]"
    with xlab.remove_size_one_mesh_axis_from_type(True):
        x = xlab.device_put(jnp.arange(8.0), sharding)
        assert str(xlab.typeof(x)) == str(xlab.typeof(jnp.sin(x))) == "float32[8@i]"


def test_smap():
    x = jnp.arange(8.0)
    with xlab.set_mesh(auto_mesh()):
        traced = []

        @xlab.smap(in_axes=0, out_axes=0, axis_name="i")
        def scaled(x):
            traced.append(x.shape)
            return x * lax.axis_index("i")

        assert (
            scaled(x).tolist()
            == scaled(x).tolist()
            == (np.arange(8.0) * np.repeat(np.arange(4), 2)).tolist()
        )
        assert traced == [(2,)]
        assert (
            float(
                xlab.smap(
                    lambda x: lax.psum(x.sum(), "i"), in_axes=0, out_axes=None, axis_name="i"
                )(x)
            )
            == 28.0
        )
        total, parts = xlab.smap(
            lambda x, y: (x + y, {"a": y}), in_axes=(-1, None), out_axes=(1, None), axis_name="i"
        )(jnp.ones((2, 8)), jnp.ones(()))
        assert total.shape == (2, 8) and float(parts["a"]) == 1.0
        np.testing.assert_allclose(
            xlab.grad(lambda x: (scaled(x) ** 2).sum())(x), 2 * scaled(scaled(x))
        )
        for fault, match, axes in (
            (TypeError, "in_axes was not specified", {}),
            (TypeError, "int, None", {"in_axes": [0]}),
            (ValueError, "axis 5", {"in_axes": 5}),
            (ValueError, "smap in_axes", {"in_axes": (0, 0)}),
        ):
            with pytest.raises(fault, match=match):
                xlab.smap(lambda x: x, out_axes=0, axis_name="i", **axes)(x)
        with pytest.raises(ValueError, match="subset"):
            xlab.smap(lambda x: x, in_axes=0, out_axes=0, axis_name="j")(x)
        with pytest.raises(TypeError, match="axis_name"):
            xlab.smap(lambda x: x, in_axes=0, out_axes=0, axis_name=("i",))
    with pytest.raises(ValueError, match="context mesh cannot be empty"):
        scaled(x)


# -- threads and memory -------------------------------------------------------------------------------------


def in_thread(f):
    out = []

    def run():
        try:
            out.append(f())
        except Exception as e:
            out.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return out[0]


def test_thread_guard():
    f = xlab.jit(lambda x: x + 1)
    with xlab.thread_guard():
        check_thread("a program")
        refused = in_thread(lambda: check_thread("a program"))
        assert isinstance(
            refused, RuntimeError
        ) and "a program runs on devices of several processes" in str(refused)
        assert float(in_thread(lambda: f(1.0))) == 2.0  # one process: its threads do not matter
        with xlab.thread_guard(False):
            assert in_thread(lambda: check_thread("a program")) is None
    assert in_thread(lambda: check_thread("a program")) is None


def test_programs_on_several_processes_ask_the_guard():
    closed = xlab.jit(lambda x: x * 2)
    closed(1.0)
    executable = next(iter(closed._xlab_jit.executables.values()))
    assert executable.across_processes is False
    executable.across_processes = True
    with xlab.thread_guard():
        assert float(executable.call([1.0])[0]) == 2.0
        assert isinstance(in_thread(lambda: executable.call([1.0])), RuntimeError)


CYCLE = """
import gc
import xlab, xlab.numpy as jnp
def cycle():
    box = [jnp.ones(3)]
    box.append(box)
gc.collect()
gc.disable()
{enter}
    cycle()
    gc.collect()
"""


@pytest.mark.parametrize(("level", "said"), [("allow", False), ("log", True), ("fatal", True)])
def test_array_garbage_collection_guard(level, said):
    code = CYCLE.format(enter=f"with xlab.array_garbage_collection_guard({level!r}):")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert bool(re.search("garbage", done.stderr)) is said, done.stderr
    assert (done.returncode != 0) == (level == "fatal")
    with pytest.raises(ValueError, match="array_garbage_collection_guard"):
        xlab.array_garbage_collection_guard("never")


def test_copy_to_host_async():
    tree = {"a": jnp.arange(3), "b": 3, "c": [xlab.random.key(0), "text"]}
    assert xlab.copy_to_host_async(tree) is tree
    assert np.asarray(tree["a"]).tolist() == [0, 1, 2]


def test_older_names():
    for old, new in (
        ("host_id", "process_index"),
        ("host_count", "process_count"),
        ("host_ids", "process_indices"),
    ):
        with pytest.warns(UserWarning, match=f"{old} has been renamed to xlab.{new}"):
            assert getattr(xlab, old)() == getattr(xlab, new)()


def test_environment(capsys):
    assert xlab.print_environment_info() is None
    text = capsys.readouterr().out.strip()
    assert text == xlab.print_environment_info(return_string=True)
    assert re.search(r"jaxlib: [\d.]+", text) and re.search(
        rf"device info: cpu-{xlab.device_count()}", text
    )


def test_windows_of_arrays():
    x = np.arange(10)
    a = jnp.asarray(x)
    assert (
        a[xlab.ds(2, 3)].tolist() == [2, 3, 4]
        and a[xlab.ds(3)].tolist() == [0, 1, 2]
        and a[xlab.ds(None)].tolist() == x.tolist()
    )
    f = xlab.jit(lambda a, i: (a[xlab.ds(i, 3)], a[xlab.ds(i, 3, 2)]))
    assert [v.tolist() for v in f(a, 4)] == [[4, 5, 6], [4, 6, 8]]
    assert a.reshape(2, 5)[:, xlab.ds(1, 2)].tolist() == [[1, 2], [6, 7]]
    with pytest.raises(ValueError, match="Out of bound slice"):
        a[xlab.ds(0, 11)]
    with pytest.raises(TypeError, match="size of ds must be a Python int"):
        xlab.jit(lambda i: a[xlab.ds(0, i)])(3)


def test_the_directory_of_compiled_programs_under_its_other_name(tmp_path):
    from xlab.experimental.compilation_cache import compilation_cache

    before = xlab.config.jax_compilation_cache_dir
    try:
        compilation_cache.set_cache_dir(tmp_path)
        compilation_cache.reset_cache()
        assert xlab.config.jax_compilation_cache_dir == str(tmp_path)
    finally:
        xlab.config.update("jax_compilation_cache_dir", before)


# -- constants, trivial programs, and where programs run ----------------------------------------------------


def _folded(f, *args):
    """The equations of `f` with constants folded; its value there is checked to be the usual one."""
    with flag_context("eager_constant_folding", True):
        program = xlab.make_jaxpr(f)(*args)
        folded = xlab.jit(f)(*args)
    for a, b in zip(xlab.tree.leaves(folded), xlab.tree.leaves(xlab.jit(f)(*args)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
        assert a.dtype == b.dtype and a.weak_type == b.weak_type
    return [e.primitive.name for e in program.eqns]


def test_constants_are_folded_while_tracing_and_nothing_else_is():
    x = np.ones((3, 3), np.float32)
    assert _folded(lambda x: x + jnp.sin(jnp.arange(3.0)) @ jnp.eye(3), x) == ["add"]
    with flag_context("eager_constant_folding", True):
        assert jnp.arange(3).tolist() == [0, 1, 2]
    assert _folded(lambda x: (x, jnp.cumsum(jnp.arange(4))), x) == []
    assert _folded(xlab.jit(lambda x: x * jnp.linspace(0, 1, 3)), x) == ["jit"]
    key = xlab.random.key(3)
    assert _folded(lambda x: x + xlab.random.normal(key, (3, 3)), x) == ["add"]
    assert _folded(xlab.grad(lambda x: (x * jnp.exp(jnp.ones((3, 3)))).sum()), x)[0] != "exp"
    scanned = _folded(lambda x: lax.scan(lambda c, r: (c + r * jnp.tanh(2.0), c), x[0], x), x)
    assert "tanh" not in scanned and "scan" in scanned


def test_what_has_effects_or_differs_by_device_is_not_folded():
    seen = []

    def f(x):
        xlab.debug.callback(seen.append, jnp.sin(1.0))
        return x

    assert _folded(f, 1.0) == ["debug_callback"]
    xlab.effects_barrier()
    assert len(seen) == 2  # of the two calls, none of tracing
    x, names = np.arange(4.0, dtype=np.float32), {"mesh": auto_mesh(), "in_specs": P("i")}
    for body in (lambda x: x + lax.axis_index("i"), lambda x: x + jnp.cos(jnp.arange(1.0))):
        assert _folded(xlab.shard_map(body, out_specs=P("i"), **names), x) == ["shard_map"]
    with flag_context("eager_constant_folding", True):
        (n,) = xlab.export.symbolic_shape("n")
        shaped = xlab.ShapeDtypeStruct((n,), np.float32)
        exported = xlab.export.export(xlab.jit(lambda x: x + jnp.arange(x.shape[0])))(shaped)
    assert exported.call(np.ones(3, np.float32)).tolist() == [1, 2, 3]


def test_trivial_programs_are_forwarded_instead_of_compiled():
    x = xlab.device_put(jnp.arange(8.0), NamedSharding(auto_mesh(), P("i")))
    table = jnp.arange(100.0)

    def f(x, y):
        return {"x": x, "two": 2.0, "table": table, "y": (y, x)}

    with flag_context("forward_trivial", True), observe.record() as session:
        got = xlab.jit(f)(x, np.float64(3))
        assert xlab.jit(lambda: None)() is None
    assert got["x"] is x and got["y"][1] is x
    assert not [e for e in session.events if e.kind == "compile"]
    for a, b in zip(xlab.tree.leaves(got), xlab.tree.leaves(xlab.jit(f)(x, np.float64(3)))):
        np.testing.assert_array_equal(a, b)
        assert (a.dtype, a.weak_type) == (b.dtype, b.weak_type)
    with flag_context("forward_trivial", True):
        assert xlab.jit(lambda x: x, donate_argnums=0)(jnp.ones(3)).tolist() == [1, 1, 1]
        there = NamedSharding(auto_mesh(), P())
        assert xlab.jit(lambda x: x, out_shardings=there)(x).sharding == there
        assert xlab.jit(lambda x: x + 1)(jnp.ones(2)).tolist() == [2, 2]
        assert xlab.grad(xlab.jit(lambda x: x))(3.0) == 1


def test_placements_are_logged(caplog):
    x = xlab.device_put(np.ones((4, 2), np.float32), NamedSharding(auto_mesh(), P("i")))
    f = xlab.jit(lambda x: x.T)
    with flag_context("distributed_debug", True):
        f(x)
        f(x)
    f(x[:2])
    (line,) = [r.getMessage() for r in caplog.records if "was compiled for devices" in r.message]
    assert re.fullmatch(
        r"jit\(<lambda>\) was compiled for devices \[0, 1, 2, 3\] of platform cpu, fingerprint \d+:\n"
        r"  argument x: f32\[4,2\], P\('i',\)\n  result 0: f32\[2,4\], P\(None, 'i'\)",
        line,
    )
