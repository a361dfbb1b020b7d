"""Every option has an effect that can be seen, or says that it has none."""

from __future__ import annotations

import inspect
import io
import logging
import os
import re
import subprocess
import sys
import threading
import warnings
from contextlib import contextmanager

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import kernels, lax
from xlab.backend import ir
from xlab.config import FLAGS, config, flag_context
from xlab.flags import WITHOUT_EFFECT
from xlab.kernels import kernel_call
from xlab.sharding import AxisType
from xlab.sharding import PartitionSpec as P

NAN = np.float32("nan")


def raises(f) -> str:
    """The name of what a call raises, or nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            f()
        except Exception as e:
            return type(e).__name__
    return ""


def logged(f) -> int:
    """How many warnings a call logs."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setLevel(logging.WARNING)
    logger = logging.getLogger("xlab")
    logger.addHandler(handler)
    before, logger.propagate = logger.propagate, False
    try:
        f()
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
    return len(stream.getvalue().splitlines())


def mesh(shape=(8,), names=("i",), kind=AxisType.Auto):
    return xlab.make_mesh(shape, names, axis_types=(kind,) * len(names))


def mapped(f, **more):
    return xlab.shard_map(f, mesh=mesh(), in_specs=P("i"), out_specs=P("i"), **more)


X = np.arange(8, dtype=np.float32)


def compiles():
    return xlab.jit(lambda x: x + 1)(jnp.ones(3))


def divergent():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xlab.make_jaxpr(
            mapped(
                lambda x: lax.cond(x[0] > 1, lambda v: lax.psum(v, "i"), lambda v: v, x),
                check_vma=False,
            )
        )(X)


def one_sided():
    def f(x):
        return lax.precv(lax.psend(x, "i", [(0, 1)]), x, "i", [(0, 1)])

    return xlab.jit(mapped(f, check_vma=False)).lower(X)


def explicit():
    x = xlab.device_put(
        X, xlab.sharding.NamedSharding(mesh((8, 1), ("i", "j"), AxisType.Explicit), P(("i", "j")))
    )
    return str(xlab.typeof(x))


# Of each option, another value and what then comes out differently.
EFFECTS = {
    "enable_x64": (True, lambda: jnp.asarray(1.0).dtype),
    "disable_jit": (True, lambda: raises(lambda: xlab.jit(lambda x: 1 if x > 0 else 2)(1.0))),
    "debug_nans": (True, lambda: raises(lambda: jnp.log(jnp.float32(-1)))),
    "debug_infs": (True, lambda: raises(lambda: jnp.float32(1) / jnp.float32(0))),
    "default_device": (lambda: xlab.devices()[3], lambda: jnp.ones(2).devices()),
    "default_matmul_precision": ("float32", lambda: str(xlab.make_jaxpr(jnp.dot)(X, X))),
    "numpy_dtype_promotion": ("strict", lambda: raises(lambda: jnp.ones(2) + jnp.ones(2, np.int32))),
    "numpy_rank_promotion": ("raise", lambda: raises(lambda: jnp.ones((2, 2)) + jnp.ones(2))),
    "default_prng_impl": ("rbg", lambda: str(xlab.random.key(0).dtype)),
    "enable_custom_prng": (True, lambda: str(xlab.random.PRNGKey(0).dtype)),
    "random_seed_offset": (3, lambda: xlab.random.key_data(xlab.random.key(0)).tolist()),
    "threefry_partitionable": (False, lambda: int(xlab.random.bits(xlab.random.key(0)))),
    "debug_key_reuse": (True, lambda: raises(lambda: [xlab.random.uniform(k) for k in [xlab.random.key(0)] * 2])),
    "check_tracer_leaks": (True, lambda: raises(lambda: (kept := [], xlab.jit(lambda x: kept.append(x) or x)(1.0)))),
    "check_jaxpr": (False, lambda: raises(lying)),
    "enable_checks": (True, lambda: raises(lying)),
    "debug_checks": (True, lambda: raises(lambda: kernels.debug_check(False, "it is false"))),
    "auto_pcast": (False, lambda: raises(lambda: mapped(lambda x: x + jnp.ones(1))(X))),
    "strict_divergence": (True, lambda: raises(divergent)),
    "remove_size_one_mesh_axis_from_type": (True, explicit),
    "emulate_send_recv": (True, lambda: raises(one_sided)),
    "pmax_subgradient": (True, lambda: raises(lambda: xlab.jvp(xlab.vmap(lambda v: lax.pmax(v, "i"), axis_name="i"), (X,), (X,)))),
    "softmax_custom_jvp": (True, lambda: "custom_jvp" in str(xlab.make_jaxpr(xlab.nn.softmax)(X))),
    "allow_f16_reductions": (False, lambda: raises(lambda: lax.reduce_sum(jnp.ones(3, np.float16), (0,)))),
    "uninitialized_memory": ("zero", lambda: float(xlab.empty_ref(xlab.ShapeDtypeStruct((), "float32"))[...]) == 0),
    "kernels_default_interpret": ("compiled", lambda: raises(lambda: kernel_call(lambda ref: None, jnp.ones(2))())),
    "jax2tf_associative_scan_reductions": (True, lambda: "reduce_window" in xlab.jit(lambda x: lax.cumsum(x)).lower(X).as_text()),
    "legacy_prng_key": ("error", lambda: raises(lambda: xlab.random.uniform(xlab.random.PRNGKey(0)))),
    "no_execution": (True, lambda: raises(compiles)),
    "no_tracing": (True, lambda: raises(compiles)),
    "thread_guard": (True, lambda: guarded()),
    "explain_cache_misses": (True, lambda: logged(compiles)),
    "log_compiles": (True, lambda: logged(compiles)),
    "pmap_replica_mode": (True, lambda: replicated()),
    "eager_pmap": (False, lambda: raises(lambda: eager())),
    "eager_constant_folding": (True, lambda: len(xlab.make_jaxpr(lambda x: x + jnp.sin(jnp.ones(8)))(X).eqns)),
    "distributed_debug": (True, lambda: logged(compiles)),
    "forward_trivial": (True, lambda: forwards()),
    "log_checkpoint_residuals": (True, lambda: logged(lambda: xlab.grad(xlab.checkpoint(lambda x: jnp.sin(jnp.sin(x))))(1.0))),
}  # fmt: skip

# Options whose effect other tests look for, in processes or folders of their own.
ELSEWHERE = {
    "traceback_filtering": "tests/notebook/test_bad_input.py",
    "compilation_cache_dir": "tests/compile/test_disk_cache.py",
    "enable_compilation_cache": "tests/compile/test_disk_cache.py",
    "persistent_cache_min_compile_time_secs": "tests/compile/test_disk_cache.py",
    "raise_persistent_cache_errors": "tests/compile/test_disk_cache.py",
    "compilation_cache_max_size": "tests/compile/test_disk_cache.py",
    "array_garbage_collection_guard": "tests/test_options.py",
    "num_cpu_devices": "tests/test_config.py",
    "spmd_mode": "tests/parallel/test_across.py",
    "collective_timeout": "tests/backend/test_watchdog.py",
    **dict.fromkeys(
        (
            "transfer_guard",
            "transfer_guard_host_to_device",
            "transfer_guard_device_to_host",
            "transfer_guard_device_to_device",
        ),
        "tests/backend/test_transfer_guards.py",
    ),
}
HERE = {"dump_ir_to", "dump_ir_modes", "persistent_cache_min_entry_size_bytes"}


def lying():
    from xlab.core.primitive import Primitive

    answers = iter([xlab.typeof(np.ones(2, np.float32)), xlab.typeof(np.ones(3, np.float32))])
    lying = Primitive("lying", hidden=True)
    lying.def_abstract_eval(lambda x: next(answers))

    def f(x):
        y = lying.bind(x)
        lying.clear_cache()
        return y

    return xlab.make_jaxpr(f)(1.0)


def forwards():
    x = jnp.ones(3)
    return xlab.jit(lambda x: x)(x) is x


def replicated():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xlab.jit(xlab.pmap(lambda v: v))(X).sharding.is_fully_replicated


def eager():
    with xlab.disable_jit():
        return xlab.pmap(lambda v: v if v >= 0 else -v)(X)


def guarded():
    from xlab.config import check_thread

    out = []
    with xlab.thread_guard(config.thread_guard):
        thread = threading.Thread(
            target=lambda: out.append(raises(lambda: check_thread("a program")))
        )
        thread.start()
        thread.join()
    return out


@contextmanager
def usual():
    """Values of options as a session begins with them, which the tests' own settings may not be."""
    changed = {
        n: v for n, v in config.values.items() if n in ("check_jaxpr",) and v != FLAGS[n].default
    }
    for n in changed:
        config.update(n, FLAGS[n].default)
    try:
        yield
    finally:
        for n, v in changed.items():
            config.update(n, v)


def test_every_option_is_accounted_for():
    idle = {n for n, flag in FLAGS.items() if flag.idle}
    assert set(EFFECTS) | set(ELSEWHERE) | HERE | idle == set(FLAGS), "an option without a probe"
    assert not (set(EFFECTS) | set(ELSEWHERE) | HERE) & idle
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for name, file in ELSEWHERE.items():
        with open(os.path.join(root, file)) as f:
            assert name in f.read(), (name, file)


@pytest.mark.parametrize("name", EFFECTS)
def test_an_option_has_its_effect_and_loses_it(name):
    value, probe = EFFECTS[name]
    value = value() if callable(value) else value
    with usual():
        if name == "check_jaxpr":
            value = True
        before = probe()
        with flag_context(name, value):
            inside = probe()
        assert inside != before, (before, inside)
        assert probe() == before


@pytest.mark.parametrize("name", [n for n, flag in FLAGS.items() if flag.idle])
def test_an_option_nothing_depends_on_says_so_and_recompiles_nothing(name):
    flag = FLAGS[name]
    assert not flag.traced
    other = {bool: not flag.default, int: 3, str: "x"}[flag.kind]
    key = config.trace_context()
    with pytest.warns(
        UserWarning, match=re.escape(f"The option '{name}' has no effect in xlab: {flag.idle}")
    ):
        config.update(f"jax_{name}", other)
    with pytest.warns(UserWarning, match="no effect"), flag_context(name, other):
        assert config.trace_context() == key
    with warnings.catch_warnings(action="error"):
        config.update(name, flag.default)
    assert config.read(name) == flag.default
    done = (
        subprocess.run(
            [sys.executable, "-c", "import xlab.config"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, flag.env: str(other)},
        )
        if name == "use_shardy_partitioner"
        else None
    )
    assert done is None or "has no effect" in done.stderr


def test_options_of_the_field_without_effect_are_not_flags():
    assert not set(WITHOUT_EFFECT) & set(FLAGS)


def test_log_of_a_compilation(caplog):
    def my_fn(a, b):
        return a * 17 + b

    f = xlab.jit(my_fn)
    with caplog.at_level(logging.DEBUG, "xlab"):
        f(X, jnp.ones(8))
        assert {r.levelname for r in caplog.records} == {"DEBUG"}
        caplog.clear()
        with xlab.log_compiles():
            f(X[:4], jnp.ones(4))
            wanted = (
                r"Finished tracing my_fn for jit in \d+\.\d+ sec",
                r"Compiling jit\(my_fn\) with global shapes and types \(float32\[4\], "
                r"float32\[4\]\)\. Argument mapping: \(.*\)\.",
                r"Finished jaxpr to MLIR module conversion jit\(my_fn\) in \d+\.\d+ sec",
                r"Finished XLA compilation of jit\(my_fn\) in \d+\.\d+ sec",
            )
            lines = [r for r in caplog.records if "my_fn" in r.message]
            assert len(lines) == 4 and all(
                re.fullmatch(w, r.message) for w, r in zip(wanted, lines)
            ), [r.message for r in lines]
            assert {r.levelname for r in lines} == {"WARNING"}
            caplog.clear()
            f(X[:4], jnp.ones(4))
            assert not caplog.records


def test_dump_of_programs(tmp_path):
    def my_fn(x):
        return x * 23

    folder = tmp_path / "new" / "folder"
    with flag_context("dump_ir_to", str(folder)):
        for f in (my_fn, lambda x: x * 24):
            xlab.jit(f)(X)
        with flag_context("dump_ir_modes", "jaxpr"):
            xlab.jit(lambda x: my_fn(x) + 1)(X)
    first, second, third = sorted(folder.iterdir(), key=lambda p: (p.suffix == ".txt", p.name))
    numbers = [int(p.name[len("xlab_ir") :][:4]) for p in (first, second)]
    assert numbers[1] == numbers[0] + 1
    assert first.name.endswith("_jit_my_fn_compile.mlir") and second.name.endswith(
        "_jit__lambda__compile.mlir"
    )
    assert (
        "module @" in first.read_text()
        and third.name.endswith(".jaxpr.txt")
        and "mul a 23.0" in third.read_text()
    )
    with pytest.raises(ValueError, match="dump_ir_modes accepts 'stablehlo' and 'jaxpr'"):
        config.update("dump_ir_modes", "eqn_count_pprof")


def test_d31_every_module_on_its_way_to_the_compiler_is_written(tmp_path):
    folder, cache = tmp_path / "ir", tmp_path / "cache"
    with flag_context("dump_ir_to", str(folder)):
        config.update("compilation_cache_dir", str(cache))
        config.update("persistent_cache_min_compile_time_secs", 0.0)
        try:
            f = xlab.jit(lambda x: x * 37, name="twice/<b>")
            f(X)
            f(X)  # known in this process
            xlab.clear_caches()
            f(X)  # found on disk, after it was written
        finally:
            config.update("compilation_cache_dir", None)
            config.update(
                "persistent_cache_min_compile_time_secs",
                FLAGS["persistent_cache_min_compile_time_secs"].default,
            )
        one, two = sorted(p.name for p in folder.iterdir())
        assert re.fullmatch(r"xlab_ir\d{4,}_jit_twice__b__compile\.mlir", one) and one < two
        lowered = f.lower(X)
        text = (folder / one).read_text()
        assert ir.print_module(ir.parse(text)) == ir.print_module(lowered.compiler_ir())
    (tmp_path / "file").write_text("")
    with (
        flag_context("dump_ir_to", str(tmp_path / "file")),
        pytest.raises(OSError, match="file"),
    ):
        xlab.jit(lambda x: x * 41)(X)


def test_small_programs_are_not_stored(tmp_path):
    def entries(least):
        config.update("compilation_cache_dir", str(tmp_path / str(least)))
        config.update("persistent_cache_min_compile_time_secs", 0.0)
        config.update("persistent_cache_min_entry_size_bytes", least)
        try:
            xlab.jit(lambda x: x * 31 + least)(X)
        finally:
            config.update("compilation_cache_dir", None)
            config.update(
                "persistent_cache_min_compile_time_secs",
                FLAGS["persistent_cache_min_compile_time_secs"].default,
            )
            config.update("persistent_cache_min_entry_size_bytes", 0)
        return (
            len(list((tmp_path / str(least)).glob("*-cache")))
            if (tmp_path / str(least)).exists()
            else 0
        )

    assert entries(0) == 1 and entries(10**9) == 0


def test_nans_in_functions_that_write_references():
    ref = xlab.new_ref(jnp.zeros(2))

    def f(v):
        ref[...] = v
        return jnp.log(v - 3)

    def stores(v):
        ref[...] = jnp.log(v)

    for g in (f, stores, lambda v: xlab.jit(f)(v)):
        with xlab.debug_nans(True), pytest.raises(FloatingPointError, match="nan.*log"):
            xlab.jit(g)(-jnp.ones(2))
        assert np.isnan(np.asarray(xlab.jit(f)(jnp.zeros(2)))).all()
    ref[...] = jnp.zeros(2)
    compiled = xlab.jit(f).lower(jnp.zeros(2)).compile()
    with xlab.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        compiled(jnp.zeros(2))


def test_a_cleared_function_is_traced_again():
    box = [1]
    f = xlab.jit(lambda x: x * box[0])
    assert float(f(2.0)) == 2.0
    box[0] = 5
    assert float(f(2.0)) == 2.0
    f.clear_cache()
    assert float(f(2.0)) == 10.0


def test_contexts_are_public():
    for name in ("strict_divergence", "log_compiles", "debug_key_reuse", "auto_pcast"):
        assert inspect.isfunction(getattr(xlab, name))


KEYWORDS = {
    "vmap(sum_match": lambda: xlab.vmap(jnp.sin, sum_match=True)(X),
    "value_and_grad(reduce_axes": lambda: xlab.value_and_grad(jnp.sum, reduce_axes=("i",))(X),
    "vjp(reduce_axes": lambda: xlab.vjp(jnp.sin, X, reduce_axes=("i",)),
    "checkpoint(concrete": lambda: xlab.checkpoint(jnp.sin, concrete=True)(X),
    "make_jaxpr(abstracted_axes": lambda: xlab.make_jaxpr(jnp.sin, abstracted_axes=("n",))(X),
    "pmap(global_arg_shapes": lambda: xlab.pmap(jnp.sin, global_arg_shapes=((8,),))(X),
    "cond(linear": lambda: lax.cond(True, jnp.sin, jnp.cos, X, linear=(True,)),
    "scan(_split_transpose": lambda: lax.scan(
        lambda c, x: (c + x, x), jnp.float32(0), X, _split_transpose=True
    ),
    "reduce_max(out_sharding": lambda: lax.reduce_max(X, (0,), out_sharding=P()),
    "reduce_prod(out_sharding": lambda: lax.reduce_prod(X, (0,), out_sharding=P()),
}


@pytest.mark.parametrize("call", KEYWORDS)
def test_an_argument_nothing_depends_on_says_so(call):
    with pytest.warns(
        UserWarning, match=re.escape(call) + r"=\.\.\.\) has no effect in xlab: "
    ) as told:
        KEYWORDS[call]()
    assert told[0].filename == __file__
