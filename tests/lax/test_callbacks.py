"""What callbacks do: in which order, on which device, how often, with what, and what happens when they fail."""

from __future__ import annotations

import gc
import io
import logging
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.experimental import io_callback
from xlab.sharding import AxisType, NamedSharding, SingleDeviceSharding
from xlab.sharding import PartitionSpec as P

S = xlab.ShapeDtypeStruct


@pytest.fixture
def line():
    return xlab.make_mesh((8,), ("i",))


@pytest.fixture
def whole(line):
    return xlab.device_put(np.arange(8.0, dtype=np.float32), NamedSharding(line, P("i")))


def log_to(seen):
    return lambda x: seen.append(np.asarray(x).tolist())


# -- what the callback sees --------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda f: f, xlab.jit], ids=["eager", "jit"])
def test_arguments_are_arrays_of_ours(wrap):
    seen = []

    def look(a, b, *, c):
        seen.append(
            (type(a), type(b), isinstance(c, xlab.Array), a.dtype, b.at[0].set(3)[0].item())
        )
        return a

    f = wrap(lambda x: xlab.pure_callback(look, S((), np.float32), np.float32(1), x, c=x))
    assert float(f(jnp.arange(3.0))) == 1
    ((a, b, c, dtype, first),) = seen
    assert a is b is type(jnp.ones(1)) and c and dtype == np.float32 and first == 3


def test_arguments_may_be_kept():
    kept = []
    f = xlab.jit(lambda x: io_callback(lambda v: kept.append(v), None, x))
    for i in range(20):
        f(jnp.full((1000,), i))
    xlab.effects_barrier()
    assert [int(v[0]) for v in kept] == list(range(20)) and all(
        (np.asarray(v) == int(v[0])).all() for v in kept
    )


def test_a_callback_may_use_the_runtime():
    f = xlab.jit(
        lambda x: xlab.pure_callback(lambda v: jnp.sin(v) * 2, S((300, 300), np.float32), x)
    )
    np.testing.assert_allclose(f(jnp.ones((300, 300)))[0, 0], 2 * np.sin(1.0), rtol=1e-6)


def test_a_callback_while_tracing_runs_concretely():
    def outer(x):
        with xlab.ensure_compile_time_eval():
            y = xlab.pure_callback(lambda v: jnp.cos(v) + 1, S((), np.float32), np.float32(0))
            assert float(y) == 2.0
        return x * y

    assert float(xlab.jit(outer)(3.0)) == 6.0


def test_debug_values_that_are_no_arrays_go_as_they_are():
    seen = []
    marker = object()
    xlab.jit(
        lambda x: xlab.debug.callback(
            lambda *a, **k: seen.append((a, k)), "word", marker, x, none=None
        )
    )(1.0)
    xlab.effects_barrier()
    ((args, kwargs),) = seen
    assert args[:2] == ("word", marker) and float(args[2]) == 1.0 and kwargs == {"none": None}


def test_keys_are_keys():
    seen = []
    xlab.jit(lambda k: xlab.debug.callback(seen.append, k))(xlab.random.key(3))
    xlab.effects_barrier()
    assert jnp.issubdtype(seen[0].dtype, xlab.dtypes.prng_key)
    assert xlab.random.bits(seen[0]) == xlab.random.bits(xlab.random.key(3))


# -- order ------------------------------------------------------------------------------------------------


def test_ordered_calls_keep_their_order_in_loops():
    seen = []
    log = log_to(seen)

    @xlab.jit
    def f(n):
        def body(i, c):
            io_callback(log, None, i, ordered=True)
            return (
                lax.cond(
                    i % 2 == 0, lambda: io_callback(log, None, i + 100, ordered=True), lambda: None
                )
                or c + 1
            )

        return lax.fori_loop(0, n, body, 0)

    assert int(f(4)) == 4
    xlab.effects_barrier()
    assert seen == [0, 100, 1, 2, 102, 3]


def test_ordered_calls_keep_their_order_from_program_to_program():
    seen = []
    log = log_to(seen)

    def slow(x):
        time.sleep(0.05)
        log(x)

    first = xlab.jit(
        lambda x: lax.scan(
            lambda c, i: (io_callback(slow, None, i, ordered=True), (c, None))[1], x, jnp.arange(3)
        )
    )
    second = xlab.jit(lambda x: io_callback(log, None, x, ordered=True))
    first(0)
    second(10)
    io_callback(log, None, np.int32(11), ordered=True)
    second(12)
    xlab.effects_barrier()
    assert seen == [0, 1, 2, 10, 11, 12]


def test_prints_of_two_functions_interleave_in_program_order(capsys):
    f = xlab.jit(lambda x: xlab.debug.print("f {}", x, ordered=True))
    g = xlab.jit(lambda x: xlab.debug.print("g {}", x, ordered=True))
    for i in range(3):
        f(i)
        g(i)
    xlab.effects_barrier()
    assert capsys.readouterr().out.split("\n")[:-1] == ["f 0", "g 0", "f 1", "g 1", "f 2", "g 2"]


def test_ordered_calls_over_changing_devices(line):
    from xlab.compile.effects import runtime_tokens
    from xlab.core.effects import ordered_io_effect

    seen, ids = [], []
    log = log_to(seen)
    devices = xlab.devices()
    meshes = [
        line,
        xlab.sharding.Mesh(np.array(devices[::-1]), ("i",)),
        xlab.sharding.Mesh(np.array(devices[:4]), ("i",)),
        line,
    ]
    places = [NamedSharding(m, P()) for m in meshes] + [SingleDeviceSharding(devices[0])]
    f = xlab.jit(lambda x: io_callback(log, None, x, ordered=True))
    for i, place in enumerate(places):
        f(xlab.device_put(np.int32(i), place))
        ids.append(
            [
                d.id
                for d in runtime_tokens.current_tokens[ordered_io_effect].sharding.devices_in_order
            ]
        )
    xlab.effects_barrier()
    assert seen == [0, 1, 2, 3, 4]
    assert ids == [list(range(8)), list(range(8))[::-1], [0, 1, 2, 3], list(range(8)), [0]]
    assert not runtime_tokens.current_tokens and not runtime_tokens.output_runtime_tokens


def test_threads_have_their_own_order():
    seen: dict[int, list] = {}

    def work(t):
        seen[t] = []
        f = xlab.jit(lambda x: io_callback(log_to(seen[t]), None, x, ordered=True))
        for i in range(20):
            f(i)
        xlab.effects_barrier()

    threads = [threading.Thread(target=work, args=(t,)) for t in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert all(values == list(range(20)) for values in seen.values()) and len(seen) == 4


def test_d47_a_thread_begins_without_tokens():
    from xlab.compile.effects import runtime_tokens

    f = xlab.jit(lambda x: io_callback(lambda v: None, None, x, ordered=True))
    f(1)
    here = runtime_tokens.current_tokens, runtime_tokens.output_runtime_tokens
    assert all(here)
    seen = []
    thread = threading.Thread(
        target=lambda: seen.append(
            (dict(runtime_tokens.current_tokens), dict(runtime_tokens.output_runtime_tokens))
        )
    )
    thread.start()
    thread.join()
    assert seen == [({}, {})]
    runtime_tokens.block_until_ready()
    assert not any(here)


def test_d48_an_ordered_program_takes_its_token_first():
    f = xlab.jit(lambda x: io_callback(lambda v: None, None, x, ordered=True))
    (main,) = [line for line in f.lower(1.0).as_text().splitlines() if "@main(" in line]
    assert main[main.index("@main(") :].startswith("@main(%token0: !stablehlo.token")


# -- waiting ----------------------------------------------------------------------------------------------


def test_the_barrier_waits():
    from xlab.compile.effects import runtime_tokens

    seen = []
    f = xlab.jit(
        lambda x: lax.fori_loop(
            0,
            3,
            lambda i, c: (xlab.debug.callback(lambda v: (time.sleep(0.05), seen.append(v)), i), c)[
                1
            ],
            x,
        )
    )
    f(1.0)
    assert not runtime_tokens.current_tokens and set(runtime_tokens.output_runtime_tokens) == {
        xlab.devices()[0]
    }
    xlab.effects_barrier()
    assert len(seen) == 3 and not runtime_tokens.output_runtime_tokens
    xlab.effects_barrier()


def test_effects_happen_although_nobody_reads_the_results():
    seen = []
    f = xlab.jit(
        lambda x: (io_callback(lambda v: (seen.append(1), v)[1], S((), np.float32), x), x)[1]
    )
    for _ in range(3):
        f(1.0)
    xlab.effects_barrier()
    assert len(seen) == 3
    pure = []
    xlab.jit(
        lambda x: (xlab.pure_callback(lambda v: (pure.append(1), v)[1], S((), np.float32), x), x)[1]
    )(1.0).block_until_ready()
    assert not pure


def test_the_process_waits_for_effects_at_its_end(tmp_path):
    out = tmp_path / "log"
    program = f"""
        import time, threading
        import numpy as np
        import xlab
        from xlab.experimental import io_callback
        def log(x):
            time.sleep(0.1)
            with open({str(out)!r}, "a") as f:
                f.write(f"{{int(x)}}\\n")
        f = xlab.jit(lambda n: xlab.lax.fori_loop(0, n, lambda i, c: (io_callback(log, None, i, ordered=True), c)[1], 0))
        g = xlab.jit(lambda n: xlab.lax.fori_loop(7, n, lambda i, c: (xlab.debug.callback(log, i), c)[1], 0))
        f(2)
        g(8)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    lines = out.read_text().split()
    assert sorted(lines) == ["0", "1", "7"] and lines.index("0") < lines.index("1")


# -- failures ---------------------------------------------------------------------------------------------


class Mistake(Exception):
    pass


def fail(x):
    raise Mistake("my own message")


@pytest.mark.parametrize("wrap", [lambda f: f, xlab.jit], ids=["eager", "jit"])
def test_an_exception_is_the_cause_of_the_error(wrap, caplog):
    with (
        caplog.at_level(logging.CRITICAL),
        pytest.raises(
            xlab.errors.JaxRuntimeError, match="pure_callback failed: `fail`.*my own message"
        ) as e,
    ):
        np.asarray(wrap(lambda x: xlab.pure_callback(fail, S((), np.float32), x))(1.0))
    assert type(e.value.__cause__) is Mistake
    assert e.value.__cause__.__traceback__.tb_frame.f_code.co_name == "fail"
    assert "test_callbacks.py" in str(e.value)


def test_an_exception_surfaces_at_the_barrier(caplog):
    f = xlab.jit(
        lambda x: lax.fori_loop(0, 2, lambda i, c: (xlab.debug.callback(fail, i), c)[1], x)
    )
    with (
        caplog.at_level(logging.ERROR),
        pytest.raises(xlab.errors.JaxRuntimeError, match="my own message"),
    ):
        f(1.0)
        xlab.effects_barrier()
    assert "debug.callback failed" in caplog.text and "in fail" in caplog.text
    xlab.effects_barrier()
    assert (
        float(xlab.jit(lambda x: xlab.pure_callback(lambda v: v, S((), np.float32), x))(2.0)) == 2.0
    )


def test_an_exception_surfaces_where_a_result_is_read(caplog):
    f = xlab.jit(
        lambda x: lax.fori_loop(
            0, 2, lambda i, c: xlab.pure_callback(fail, S((), np.float32), c), x
        )
    )
    with pytest.raises(xlab.errors.JaxRuntimeError, match="my own message") as e:
        float(f(1.0))
    assert type(e.value.__cause__) is Mistake
    with pytest.raises(xlab.errors.JaxRuntimeError):
        xlab.block_until_ready(f(1.0))


def test_wrong_results_say_what_was_promised(caplog):
    for bad, words in (
        (lambda v: np.zeros((2, 3), np.float32), r"shape.*\(3,\).*\(2, 3\)"),
        (lambda v: np.zeros(3, np.int32), "dtype.*float32.*int32"),
        (lambda v: (v, v), "2 array.*describes 1"),
    ):
        for wrap in (lambda f: f, xlab.jit):
            with pytest.raises(xlab.errors.JaxRuntimeError, match=words):
                np.asarray(wrap(lambda x, bad=bad: xlab.pure_callback(bad, x, x))(jnp.ones(3)))


def test_eager_debug_callbacks_raise_their_own_error():
    with pytest.raises(Mistake):
        xlab.debug.callback(fail, 1.0)


# -- several devices --------------------------------------------------------------------------------------


def test_automatic_sharding_calls_once_with_the_whole_value(whole, line):
    seen = []
    f = xlab.jit(lambda x: (xlab.debug.callback(log_to(seen), x), x + 1)[1])
    assert f(whole).sharding.is_equivalent_to(NamedSharding(line, P("i")), 1)
    xlab.effects_barrier()
    assert seen == [list(range(8))]


@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: xlab.pure_callback(f, x, x),
        lambda f, x: io_callback(f, x, x),
        lambda f, x: io_callback(f, x, x, ordered=True),
        lambda f, x: xlab.pure_callback(f, x, x, sharding=SingleDeviceSharding(xlab.devices()[3])),
    ],
)
def test_results_under_automatic_sharding(call, whole, line):
    seen = []
    f = xlab.jit(lambda x: call(lambda v: (seen.append(1), np.asarray(v) * 2)[1], x * 3) + x)
    y = f(whole)
    np.testing.assert_array_equal(y, 7 * np.arange(8))
    assert len(seen) == 1
    np.testing.assert_array_equal(f(y), 49 * np.arange(8))


def test_partitioned_callbacks_see_parts(whole):
    seen = []
    f = xlab.jit(lambda x: (xlab.debug.callback(log_to(seen), x, partitioned=True), x)[1])
    f(whole)
    xlab.effects_barrier()
    assert sorted(seen) == [[float(i)] for i in range(8)]


@pytest.mark.parametrize("ordered", [False, True])
def test_each_device_calls_under_shard_map(ordered, whole, line):
    seen = []

    def body(x):
        return io_callback(
            lambda v: (seen.append(float(v[0])), np.asarray(v) + 1)[1], x, x, ordered=ordered
        )

    for wrap in (lambda f: f, xlab.jit):
        y = wrap(xlab.shard_map(body, mesh=line, in_specs=P("i"), out_specs=P("i")))(whole)
        np.testing.assert_array_equal(y, np.arange(8) + 1)
        xlab.effects_barrier()
        assert sorted(seen) == list(range(8))
        seen.clear()


def test_each_device_calls_under_pmap():
    seen = []
    y = xlab.pmap(lambda x: (xlab.debug.callback(lambda v: seen.append(int(v)), x), x * 2)[1])(
        np.arange(8)
    )
    xlab.effects_barrier()
    np.testing.assert_array_equal(y, 2 * np.arange(8))
    assert sorted(seen) == list(range(8))


def test_callbacks_beside_collectives(whole, line):
    def body(x):
        total = lax.psum(x, "i")
        y = xlab.pure_callback(lambda v: np.asarray(v) + 1, total, total)
        return lax.psum(x * y, "i")

    f = xlab.jit(xlab.shard_map(body, mesh=line, in_specs=P("i"), out_specs=P()))
    for _ in range(5):
        assert float(f(whole)[0]) == 28 * 29


def test_a_callback_on_every_device_may_use_the_runtime(line):
    x = xlab.device_put(np.ones((8, 20000), np.float32), NamedSharding(line, P("i")))

    def body(v):
        return lax.psum(
            xlab.pure_callback(lambda u: jnp.sin(u) * jnp.cos(u).mean(), S(v.shape, v.dtype), v),
            "i",
        )

    f = xlab.jit(xlab.shard_map(body, mesh=line, in_specs=P("i"), out_specs=P()))
    for _ in range(5):
        np.testing.assert_allclose(f(x)[0, 0], 8 * np.sin(1) * np.cos(1), rtol=1e-5)


def test_devices_do_not_wait_for_a_program_that_waits_for_them(whole, caplog):
    total = xlab.jit(lambda x: x.sum())
    assert float(total(whole)) == 28
    f = xlab.jit(
        lambda x: xlab.pure_callback(lambda v: total(whole), S((), np.float32), x.sum()) + x.sum()
    )
    with pytest.raises(xlab.errors.JaxRuntimeError, match="started inside a host callback"):
        np.asarray(f(whole))
    assert float(total(whole)) == 28


def test_a_failure_on_one_device_does_not_leave_the_others_waiting(whole, line):
    def body(v):
        def sometimes(u):
            if u[0] == 3:
                raise Mistake("on one device")
            return np.asarray(u)

        return lax.psum(xlab.pure_callback(sometimes, v, v), "i")

    f = xlab.jit(xlab.shard_map(body, mesh=line, in_specs=P("i"), out_specs=P()))
    for _ in range(2):
        with pytest.raises(xlab.errors.JaxRuntimeError, match="on one device") as e:
            f(whole)
        assert type(e.value.__cause__) is Mistake
    assert float(f(whole + 8)[0]) == 28 + 64
    g = xlab.jit(lambda x: xlab.pure_callback(fail, x, x) + x)
    with pytest.raises(xlab.errors.JaxRuntimeError, match="my own message"):
        g(whole)
    xlab.effects_barrier()


def test_many_programs_with_callbacks_from_many_threads(whole, line):
    seen = []
    lock = threading.Lock()

    def note(_):
        with lock:
            seen.append(1)

    f = xlab.jit(
        lambda v: lax.fori_loop(0, 3, lambda i, c: (xlab.debug.callback(note, c), c + 1)[1], v)
    )
    g = xlab.jit(
        xlab.shard_map(
            lambda v: lax.psum(xlab.pure_callback(lambda u: np.asarray(u), v, v), "i"),
            mesh=line,
            in_specs=P("i"),
            out_specs=P(),
        )
    )

    def work():
        for i in range(10):
            f(float(i))
            assert float(g(whole)[0]) == 28
        xlab.effects_barrier()

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len(seen) == 4 * 10 * 3


def test_what_several_devices_cannot_do(whole, line):
    with pytest.raises(ValueError, match="ordered effects.*more than 1 device"):
        xlab.jit(lambda x: xlab.debug.print("{}", x, ordered=True))(whole)
    with pytest.raises(NotImplementedError, match="SingleDeviceSharding"):
        xlab.jit(lambda x: xlab.pure_callback(np.sin, x, x, sharding=NamedSharding(line, P())))(
            whole
        )
    two = xlab.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
    with pytest.raises(NotImplementedError, match="all mesh axes"):
        xlab.jit(
            xlab.shard_map(
                lambda x: (io_callback(print, None, x, ordered=True), x)[1],
                mesh=two,
                in_specs=P("a"),
                out_specs=P("a"),
                axis_names={"a"},
            )
        )(np.arange(8.0, dtype=np.float32))


# -- printing ---------------------------------------------------------------------------------------------


def test_print_formats_when_the_program_runs(capsys):
    f = xlab.jit(
        lambda x: (
            xlab.debug.print(
                "{x:.2f} {} {tree} {word!r}", x + 1, x=x, tree=[x, {"a": x}], word="w"
            ),
            x,
        )[1]
    )
    f(1.5)
    xlab.effects_barrier()
    out = capsys.readouterr().out
    assert out.startswith(
        "1.50 2.5 [Array(1.5, dtype=float32), {'a': Array(1.5, dtype=float32)}] 'w'"
    )


def test_print_uses_the_options_of_its_place(capsys):
    with np.printoptions(precision=2):
        f = xlab.jit(lambda x: xlab.debug.print("{}", x))
        f(jnp.array([1.23456, 2.0]))
    xlab.effects_barrier()
    assert capsys.readouterr().out == "[1.23 2.  ]\n"


def test_log_comes_from_the_callers_line(caplog):
    with caplog.at_level(logging.INFO, logger="xlab.debug"):
        xlab.jit(lambda x: xlab.debug.log("x is {}", x))(1.0)
        xlab.effects_barrier()
    (record,) = [r for r in caplog.records if r.name == "xlab.debug"]
    assert (
        record.getMessage() == "x is 1.0"
        and record.pathname == __file__
        and record.levelno == logging.INFO
    )


def test_gradients_see_the_primal_once(capsys):
    f = xlab.jit(xlab.grad(lambda x: (xlab.debug.print("x {}", x), jnp.sin(x))[1]))
    f(1.0)
    xlab.effects_barrier()
    assert capsys.readouterr().out == "x 1.0\n"
    xlab.grad(xlab.checkpoint(lambda x: (xlab.debug.print("x {}", x), jnp.sin(jnp.sin(x)))[1]))(1.0)
    assert capsys.readouterr().out == "x 1.0\nx 1.0\n"


# -- lifetime and speed -----------------------------------------------------------------------------------


def test_a_callback_lives_as_long_as_its_program():
    class Callback:
        def __call__(self, x):
            return np.asarray(x) + 1

    callback = Callback()
    alive = weakref.ref(callback)
    f = xlab.jit(lambda x, c=callback: xlab.pure_callback(c, S((), np.float32), x))
    del callback
    gc.collect()
    assert float(f(1.0)) == 2.0 and alive() is not None
    del f
    gc.collect()
    assert alive() is None


def test_programs_without_effects_stay_on_the_native_path(empty_native_cache):
    f = xlab.jit(lambda x: x + 1)
    x = jnp.ones(3)
    f(x)
    assert f._cache_size() == 1
    g = xlab.jit(lambda x: (xlab.debug.callback(lambda: None), x + 1)[1])
    g(x)
    assert g.__wrapped__ is not None
    xlab.effects_barrier()


def test_interrupts_stay_interrupts():
    def interrupted(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        np.asarray(xlab.jit(lambda x: xlab.pure_callback(interrupted, S((), np.float32), x))(1.0))


# -- breakpoints ------------------------------------------------------------------------------------------


def at_breakpoint(monkeypatch, capsys, *commands):
    def inner(a):
        b = a * 2
        xlab.debug.breakpoint()
        return b

    def outer(x):
        y = x + 1
        return inner(y)

    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(c + "\n" for c in commands)))
    result = xlab.jit(outer)(1.0)
    xlab.effects_barrier()
    return float(result), capsys.readouterr().out


def test_a_breakpoint_shows_variables_of_every_frame(monkeypatch, capsys):
    result, out = at_breakpoint(
        monkeypatch, capsys, "p b", "b + 8", "u", "p y + 1", "d", "l", "bt", "nonsense", "help", "c"
    )
    assert result == 4.0
    lines = out.split("\n")
    assert "(xdb) Array(4., dtype=float32)" in lines and "(xdb) Array(12., dtype=float32)" in lines
    assert "(xdb) Array(3., dtype=float32)" in lines
    assert "->          xlab.debug.breakpoint()" in lines and any(
        "NameError" in line for line in lines
    )
    assert any("in inner" in line for line in lines) and any("in outer" in line for line in lines)


def test_a_breakpoint_without_input_goes_on(monkeypatch, capsys):
    result, out = at_breakpoint(monkeypatch, capsys)
    assert result == 4.0 and "goes on" in out
    monkeypatch.setattr(
        "builtins.input", lambda *_: (_ for _ in ()).throw(RuntimeError("no front end"))
    )
    result, out = at_breakpoint(monkeypatch, capsys)
    assert (
        result == 4.0
        and "no input can be asked for here" in out
        and "b = Array(4., dtype=float32)" in out
    )


def test_quitting_at_a_breakpoint_ends_the_program(monkeypatch, capsys):
    with pytest.raises(xlab.errors.JaxRuntimeError, match="ended at a breakpoint"):
        at_breakpoint(monkeypatch, capsys, "q")
    with pytest.raises(ValueError, match="backend"):
        xlab.debug.breakpoint(backend="web")
