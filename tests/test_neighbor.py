"""Both packages in one process, in either import order; and the reference never let in by native code."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

needs_reference = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None,
    reason="the reference is not installed in this environment",
)

OURS = '''
import numpy as np
from tests.backend import toys
from xlab.backend import arrays
from xlab.sharding import from_native, NamedSharding
def ours():
    """Sharded and plain arrays, a jit on the fast path, shards read one by one."""
    x = np.arange(16, dtype=np.float32)
    for sharding in (toys.single(), toys.along("x")):
        fn, misses = toys.toy_jit(sharding)
        a = toys.put(x, sharding)
        out = fn(fn(fn(a)))
        assert len(misses) == 1, len(misses)
        assert np.array_equal(toys.gather(out), x * 8)
        assert from_native(out._sharding) is sharding
'''
THEIRS = """
def theirs():
    import jax, jax.numpy as jnp, numpy as np
    f = jax.jit(lambda x: jnp.sin(x) + 1)
    x = jnp.arange(8.0)
    assert np.allclose(f(x), np.sin(np.arange(8)) + 1) and np.allclose(f(x + x), np.sin(2 * np.arange(8)) + 1)
    assert "Array([" in repr(x) and float(x[2]) == 2.0 and x.shape == (8,)
    mesh = jax.make_mesh((8,), ("x",))
    s = jax.sharding.NamedSharding(mesh, jax.P("x"))
    y = jax.device_put(np.arange(8.0), s)
    assert y.sharding == s and len(y.addressable_shards) == 8 and "NamedSharding" in repr(y.sharding)
    assert np.allclose(jax.jit(lambda v: v.sum())(y), 28)
    try:
        jax.sharding.NamedSharding(mesh, jax.P("nowhere"))
    except ValueError as error:
        assert "nowhere" in str(error)
    else:
        raise AssertionError("the reference's own check is gone")
    assert jax.tree.map(lambda v: v + 1, {"a": 1}) == {"a": 2}
    with jax.enable_x64(True):
        assert jnp.arange(3.0).dtype == np.float64
"""
PUBLIC = """
def public():
    import xlab, xlab.numpy as np_ours
    x = np_ours.arange(4.0)
    assert "Array([" in repr(x + 1) and float((x + x)[3]) == 6.0
    assert float(xlab.jit(lambda v: (v * v).sum())(x)) == 14.0
    assert float(xlab.grad(lambda v: (v * v).sum())(x)[1]) == 2.0
"""


def run(*lines: str) -> None:
    code = "\n".join([OURS, THEIRS, PUBLIC, *lines])
    env = dict(
        os.environ,
        XLAB_NUM_CPU_DEVICES="8",
        XLA_FLAGS="--xla_force_host_platform_device_count=8",
        JAX_PLATFORMS="cpu",
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]


def needs_public_api() -> None:
    """These tests tour the whole package; without its upper rooms there is nothing to tour."""
    import xlab

    if not hasattr(xlab, "grad") or not hasattr(pytest.importorskip("xlab.numpy"), "arange"):
        pytest.skip("xlab.grad and xlab.numpy.arange are not there")


@pytest.mark.beside
def test_native_code_does_not_bring_the_reference():
    run(
        "ours()",
        "import sys",
        "assert not [n for n in sys.modules if n == 'jax' or n.startswith('jax.')]",
    )


@pytest.mark.beside
def test_whole_session_leaves_the_reference_out():
    needs_public_api()
    run("ours(); public()", "import sys", "assert 'jax' not in sys.modules")


@pytest.mark.beside
def test_absence_is_reported_as_absence():
    run(
        "import sys, importlib.util",
        "found = importlib.util.find_spec('jax')",
        "try:",
        "    import jax.numpy as jnp",
        "except ModuleNotFoundError:",
        "    assert found is None",
        "else:",
        "    assert found is not None and int(jnp.arange(3).sum()) == 3",
    )


@needs_reference
@pytest.mark.reference
@pytest.mark.parametrize(
    "order",
    [
        "ours(); theirs(); ours(); theirs()",
        "theirs(); ours(); theirs(); ours()",
        "import jax; ours(); theirs(); ours()",
        "import importlib; importlib.import_module('jax'); ours(); theirs()",
        "ours(); __import__('jax'); theirs(); ours()",
        "ours(); import jax._src.core; theirs(); ours()",
    ],
)
def test_both_work_in_one_process(order):
    run(order)


@needs_reference
@pytest.mark.reference
def test_shards_are_read_while_another_thread_imports_the_reference():
    """Reading asks for none of its modules out of their order, which would end its import."""
    run(
        "import sys",
        "class Midway:",
        "    def find_spec(self, name, path=None, target=None):",
        "        if name == 'jax._src.config':",
        "            before = set(sys.modules)",
        "            ours()",
        "            assert not [n for n in set(sys.modules) - before if n.startswith('jax.')]",
        "            sys.meta_path.remove(self)",
        "sys.meta_path.insert(0, Midway())",
        "theirs()",
        "assert not any(type(f) is Midway for f in sys.meta_path)",
        "ours(); theirs()",
    )


@needs_reference
@pytest.mark.reference
def test_an_import_of_the_reference_waits_while_a_shard_is_read():
    """Its modules have names for native code during a read; an import that begins meanwhile must not find them."""
    run(
        "import sys, threading",
        "from xlab.backend import parts",
        "during, seen = [], []",
        "make = parts._answer.make_single_device_sharding",
        "def slow(device, *, memory_kind):",
        "    if not during:",
        "        during.append(threading.Thread(target=theirs))",
        "        during[0].start()",
        "        during[0].join(0.3)",
        "        seen.append(('jax' in sys.modules, parts._WANTED in sys.modules))",
        "    return make(device, memory_kind=memory_kind)",
        "parts.set_sharding_of_parts(slow)",
        "ours()",
        "assert seen == [(False, True)], seen",
        "during[0].join()",
        "assert sys.modules[parts._WANTED] is not parts._answer and 'jax' in sys.modules",
        "ours(); theirs()",
    )


@pytest.mark.beside
def test_reading_leaves_no_name_behind():
    run(
        "import sys",
        "from xlab.backend import parts",
        "ours()",
        "assert parts._WANTED not in sys.modules and not any(n.split('.')[0] == 'jax' for n in sys.modules)",
    )


@needs_reference
@pytest.mark.reference
def test_import_by_unpickling_is_let_in():
    run(
        "import pickle, subprocess, sys",
        "data = subprocess.run([sys.executable, '-c', 'import jax, pickle, sys; "
        "sys.stdout.buffer.write(pickle.dumps(jax.P(1)))'], capture_output=True).stdout",
        "ours()",
        "spec = pickle.loads(data)",
        "import jax",
        "assert spec == jax.P(1)",
        "ours(); theirs()",
    )


@needs_reference
@pytest.mark.reference
@pytest.mark.parametrize(
    "order", ["public(); theirs(); public(); theirs()", "theirs(); public(); theirs(); public()"]
)
def test_public_api_beside_the_reference(order):
    needs_public_api()
    run(order)


@needs_reference
@pytest.mark.reference
def test_arrays_of_one_in_functions_of_the_other():
    """Ours take theirs; theirs say how ours are handed over, and that way works and shares the memory."""
    run(
        "import jax, jax.numpy as jnp, xlab, xlab.numpy as np_ours",
        "mine, yours = np_ours.arange(3.0), jnp.arange(3.0)",
        "assert np.allclose(np_ours.sin(yours), np.sin(np.arange(3))) and xlab.jit(lambda v: v + 1)(yours).aval is (mine + 1).aval",
        "for misuse in (lambda: jnp.sin(mine), lambda: jax.jit(lambda v: v + 1)(mine), lambda: yours + mine, lambda: jnp.where(mine > 1, yours, 0)):",
        "    try: misuse()",
        "    except TypeError as error: assert 'jax.numpy.from_dlpack(x)' in str(error) and '[3]' in str(error), error",
        "    except Exception as error: raise AssertionError(repr(error))",
        "    else: raise AssertionError('accepted')",
        "there = jnp.from_dlpack(mine)",
        "assert np.allclose(jnp.sin(there) + there, np.sin(np.arange(3)) + np.arange(3))",
        "assert there.unsafe_buffer_pointer() == mine.unsafe_buffer_pointer()",
        "assert np.allclose(jnp.cos(jnp.asarray(np.asarray(mine))), np.cos(np.arange(3)))",
        "assert np.allclose(np_ours.from_dlpack(there) + mine, 2 * np.arange(3))",
        "ours(); public(); theirs()",
    )


MIXED = """
import jax, jax.numpy as jnp, xlab, xlab.numpy as xnp
from xlab.core.array import is_native_array
mine, yours = xnp.arange(3.0), jnp.arange(3.0)
key, their_key = xlab.random.key(0), jax.random.key(0)
mesh, their_mesh = xlab.make_mesh((8,), ("d",)), jax.make_mesh((8,), ("d",))
many = jnp.arange(100.0)
works = (  # arrays of JAX's are taken as NumPy's are, and what comes out is ours
    lambda: mine + yours,
    lambda: xnp.stack([mine, yours]),
    lambda: mine.at[0].set(yours[0]),
    lambda: xnp.arange(3)[jnp.arange(3)] + mine,
    lambda: xlab.jit(lambda x: x + yours)(mine),
    lambda: xlab.jit(lambda x: x + many)(xnp.ones(100)),
    lambda: xlab.jit(lambda x: yours)(mine),
    lambda: xlab.grad(lambda x, y: (x * y * yours).sum())(mine, yours),
    lambda: xlab.lax.scan(lambda c, x: (c + x, c), mine, jnp.ones((2, 3))),
    lambda: xlab.vmap(lambda x, y: x + y)(mine, yours),
    lambda: xlab.vmap(lambda x: x + yours.sum() + many[3])(mine),
    lambda: xlab.jit(xlab.vmap(lambda x: xlab.grad(lambda y: (y * yours).sum())(x)))(mine),
    lambda: xlab.lax.scan(lambda c, x: (c + x * yours, c), yours, jnp.ones((2, 3))),
    lambda: xlab.lax.while_loop(lambda c: c[0] < yours[2], lambda c: c + yours[1], yours),
    lambda: xlab.lax.cond(jnp.array(True), lambda x: x + yours, lambda x: yours, mine),
    lambda: xlab.lax.map(lambda x: x * many[2], yours),
    lambda: xlab.jit(lambda x: x + 1).lower(mine).compile()(yours),
    lambda: xnp.asarray(yours),
    lambda: xnp.asarray(yours, xnp.bfloat16),
    lambda: xlab.device_put(yours, xlab.NamedSharding(mesh, xlab.P())),
)
for work in works:
    assert all(map(is_native_array, xlab.tree.leaves(work()))), work()
assert xnp.asarray(yours).tolist() == [0, 1, 2] and float(xlab.jit(lambda x: x + many)(xnp.ones(100))[99]) == 100
def said(work):
    try:
        found = work()
    except (TypeError, RuntimeError) as error:
        return str(error)
    raise AssertionError(f"accepted: {found!r}")
for work, words in (
    (lambda: xlab.random.normal(their_key), "xlab.random.wrap_key_data(jax.random.key_data(key))"),
    (lambda: jax.random.normal(key), "jax.random.wrap_key_data(numpy.asarray(xlab.random.key_data(key)))"),
    (lambda: jax.jit(xnp.sin)(yours), "a value that JAX traces, of type float32[3]"),
    (lambda: jax.grad(xlab.jit(lambda x: x.sum()))(yours), "a value that JAX traces"),
    (lambda: jax.vmap(lambda x: xlab.lax.sin(x))(yours), "a value that JAX traces"),
    (lambda: jax.lax.scan(lambda c, x: (xnp.sin(c), x), yours[0], yours), "a value that JAX traces"),
    (lambda: jax.lax.scan(lambda c, x: (c, x + mine), yours[0], yours), "xlab"),
    (lambda: jax.vmap(lambda x: x + mine)(yours), "jax.numpy"),
    (lambda: xlab.vmap(jnp.sin)(mine), "call the function of the same name in xlab"),
    (lambda: xlab.lax.scan(lambda c, x: (jnp.sin(c), x), mine[0], mine), "call the function of the same name in xlab"),
    (lambda: xlab.lax.scan(lambda c, x: (c + yours, x), mine, mine) and xlab.vmap(jax.vmap(lambda x: x))(xnp.ones((2, 2))), "call the function of the same name in xlab"),
    (lambda: xlab.jit(jnp.sin)(mine), "call the function of the same name in xlab"),
    (lambda: xlab.grad(jax.jit(lambda x: x.sum()))(mine), "call the function of the same name in xlab"),
    (lambda: xlab.NamedSharding(their_mesh, xlab.P("d")), "xlab.make_mesh(mesh.axis_sizes, mesh.axis_names)"),
    (lambda: xlab.NamedSharding(mesh, jax.P("d")), "xlab.P(*spec)"),
    (lambda: xlab.device_put(mine, yours.sharding), "a SingleDeviceSharding of JAX's"),
    (lambda: jax.NamedSharding(mesh, jax.P("d")), "jax.make_mesh(sizes, names)"),
    (lambda: jnp.zeros_like(mine), "jax.numpy.asarray(numpy.asarray(x))"),
    (lambda: jax.jit(lambda x: x + 1).lower(yours).compile()(mine), "jax.numpy.asarray(numpy.asarray(x))"),
):
    assert words in said(work), said(work)
assert float(xlab.random.normal(xlab.random.wrap_key_data(jax.random.key_data(their_key)))) == float(jax.random.normal(their_key))
assert float(jax.random.normal(jax.random.wrap_key_data(np.asarray(xlab.random.key_data(key))))) == float(xlab.random.normal(key))
"""


@needs_reference
@pytest.mark.reference
@pytest.mark.parametrize("first", ["jax", "xlab"])
def test_what_both_have_in_one_call_works_or_says_how_to_hand_it_over(first):
    run(f"import {first}", MIXED)


@needs_reference
@pytest.mark.reference
def test_x64_of_one_does_not_change_the_other():
    run(
        "from xlab.config import config, enable_x64",
        "import jax.numpy as jnp",
        "ours()",
        "with enable_x64(True):",
        "    assert jnp.arange(3.0).dtype == 'float32'",
        "    a = toys.put(np.arange(3.0), toys.single())",
        "    assert arrays.to_numpy(a).dtype == np.float64",
        "theirs()",
    )
