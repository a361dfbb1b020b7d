"""Host callbacks that start programs whose devices wait for one another; each test in a process of its own, which may hang."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HEAD = """
import faulthandler, itertools, threading
faulthandler.dump_traceback_later(300, exit=True)
import numpy as np, xlab, xlab.numpy as jnp
from xlab import lax
from xlab.config import config
from xlab.experimental import io_callback
from xlab.sharding import Mesh, NamedSharding, PartitionSpec as P
devices = xlab.devices()
mesh = Mesh(np.array(devices[:4]), ("i",))
rows = xlab.device_put(np.arange(32, dtype=np.float32).reshape(4, 8), NamedSharding(mesh, P("i")))
large = xlab.device_put(np.ones((4, 200, 200), np.float32) / 200, NamedSharding(mesh, P("i")))
total = xlab.jit(lambda a: a.sum())
slow = xlab.jit(lambda v: lax.fori_loop(0, 40, lambda i, m: m @ m, v))
near_one = np.ones((200, 200), np.float32) / 200
very_slow = xlab.jit(lambda v: lax.fori_loop(0, 2000, lambda i, m: m @ m, v))
very_slow(near_one).block_until_ready()
seen = []

def attach(kind, act, v):
    def back(q):
        seen.append(act())
        return np.asarray(q)
    if kind == "pure":
        return xlab.pure_callback(back, v, v)
    if kind.startswith("io"):
        return io_callback(back, v, v, ordered=kind == "io ordered")
    xlab.debug.callback(lambda q: (back(q), None)[1], v, ordered=kind == "debug ordered")
    return v
KINDS = ["pure", "io", "io ordered", "debug", "debug ordered"]
"""

INNER = (
    HEAD
    + """
def tangled(v):
    outs = []
    for k in range(3):
        u = jnp.sin(v[0] * (k + 1)) @ v[0]
        outs.append(lax.psum(jnp.cos(u).sum(), "i") + lax.psum(u @ v[0], "i").sum())
    return sum(outs)
map_rows = lambda f: xlab.jit(xlab.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P()))
psum, tangled = map_rows(lambda v: lax.psum(v.sum(), "i")), map_rows(tangled)
pmapped = xlab.pmap(lambda v: lax.psum(v.sum(), "i"), "i", devices=devices[:4])
once = float(tangled(large))
ACTS = {
    "jit": lambda: float(total(rows)) == 496,
    "eager": lambda: float((rows * 2).sum()) == 992,
    "psum": lambda: float(psum(rows)) == 496,
    "pmap": lambda: float(pmapped(np.asarray(rows))[3]) == 496,
    "reshard": lambda: np.asarray(xlab.device_put(rows, NamedSharding(mesh, P(None, "i"))))[3, 7] == 31,
    "print": lambda: "31." in str(rows),
    "tangled": lambda: abs(float(tangled(large)) - once) < 1e-2,
}
act = ACTS[INNER]
places = itertools.cycle([None, devices[0], devices[3], devices[6], devices[1]])
for kind in KINDS:
    def branches(v):  # the runtime works on several at a time, on threads of its own
        outs = [attach(kind, act, jnp.sin(v * k) @ v) for k in range(1, 4)]
        return sum(jnp.cos(o @ v) for o in outs)
    in_loop = lambda v: lax.fori_loop(0, 2, lambda i, c: attach(kind, act, c), v)
    for f in (lambda v: attach(kind, act, v), xlab.jit(lambda v: attach(kind, act, v) + 1), xlab.jit(branches), xlab.jit(in_loop)):
        device = next(places)
        v = jnp.asarray(near_one) if device is None else xlab.device_put(near_one, device)
        for x in (v, slow(v), slow(v)):
            f(x).block_until_ready()
            xlab.effects_barrier()
assert len(seen) == 5 * 3 * (1 + 1 + 3 + 2) and all(seen), (len(seen), seen)
print("survived")
"""
)

NESTED = (
    HEAD
    + """
act = lambda: float(total(rows)) == 496
for outer in KINDS:
    for inner in (outer, KINDS[KINDS.index(outer) - 1]):
        g = xlab.jit(lambda v: attach(inner, act, v) + 1)
        def call_again():
            g(slow(jnp.asarray(near_one))).block_until_ready()
            xlab.effects_barrier()
            return True
        f = xlab.jit(lambda v: attach(outer, call_again, v) + 1)
        for x in (near_one, slow(near_one)):
            f(x).block_until_ready()
            xlab.effects_barrier()
assert len(seen) == 40 and all(seen)
print("survived")
"""
)

TOGETHER = (
    HEAD
    + """
errors = []
def work(kind):
    try:
        f = xlab.jit(lambda v: attach(kind, lambda: float(total(rows)) == 496, v) + 1)
        for i in range(10):
            f(slow(near_one) if i % 2 else near_one).block_until_ready()
            xlab.effects_barrier()
    except BaseException as e:
        errors.append(e)
threads = [threading.Thread(target=work, args=(kind,)) for kind in KINDS[:4]]
for t in threads: t.start()
while any(t.is_alive() for t in threads):
    assert float(total(rows)) == 496
for t in threads: t.join()
assert not errors, errors
assert len(seen) == 40 and all(seen)
print("survived")
"""
)

TOO_FEW = (
    HEAD
    + """
f = xlab.jit(lambda v: attach("pure", lambda: float(total(rows)), v) + 1)
f(jnp.asarray(near_one)).block_until_ready()  # on this thread, which no device needs
assert seen == [496]
try:
    f(very_slow(near_one)).block_until_ready()
except xlab.errors.JaxRuntimeError as e:
    assert "PJRT_NPROC" in str(e) and "has 0 more" in str(e), e
else:
    raise AssertionError("a native thread was free")
assert float(total(rows)) == 496
print("survived")
"""
)

ENTANGLED = (
    HEAD
    + """
config.update("collective_timeout", 1.0)
go = threading.Event()
def second(q):  # runs while the other program waits for it
    assert go.wait(60)
    return np.asarray(total(rows))
second_program = xlab.jit(lambda v: xlab.pure_callback(second, xlab.ShapeDtypeStruct((), np.float32), v))
go.set()
second_program(jnp.asarray(near_one)).block_until_ready()
go.clear()
late = second_program(very_slow(near_one))
def first(q):
    go.set()
    try:
        late.block_until_ready()
    except xlab.errors.JaxRuntimeError as e:
        seen.append(str(e))
    return np.asarray(q)
joint = xlab.jit(xlab.shard_map(lambda v: lax.psum(xlab.pure_callback(first, v, v), "i"), mesh=mesh, in_specs=P("i"), out_specs=P()))
assert joint(rows)[0].sum() == 496
assert seen and all("may itself wait for this callback" in text for text in seen), seen
assert float(total(rows)) == 496
print("survived")
"""
)

JOINT = (
    HEAD
    + """
double, eager_double = xlab.jit(lambda a: a * 2), lambda a: a * 2
for f in (double, eager_double, total):
    f(rows).block_until_ready()  # natively from now on
of_one = lambda: float((jnp.ones(3) * 2).sum()) == 6
for collective in (lambda v: lax.psum(v, "i"), lambda v: v):
    for kind in ("pure", "io", "debug"):
        for start in (double, eager_double, total):
            f = xlab.jit(xlab.shard_map(lambda v: collective(attach(kind, lambda: np.asarray(start(rows)), v)), mesh=mesh, in_specs=P("i"),
                                        out_specs=P("i"), check_vma=False))
            try:
                f(rows).block_until_ready()
                xlab.effects_barrier()
            except xlab.errors.JaxRuntimeError as e:
                assert "started inside a host callback" in str(e), e
            else:
                raise AssertionError("it was started")
        f = xlab.jit(xlab.shard_map(lambda v: collective(attach(kind, of_one, v)), mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False))
        f(rows).block_until_ready()
        xlab.effects_barrier()
assert np.asarray(double(rows)).sum() == 992
assert len(seen) == 2 * 3 * 4 and all(seen)
print("survived")
"""
)

THREADS = """
import os, xlab
before = len(os.listdir("/proc/self/task"))
xlab.devices()
assert os.environ.get("PJRT_NPROC") == GIVEN
print(len(os.listdir("/proc/self/task")) - before)
"""


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=360,
        check=False,
        env={**os.environ, "XLAB_NUM_CPU_DEVICES": "8", **environment},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("inner", ["jit", "eager", "psum", "pmap", "reshard", "print", "tangled"])
def test_callbacks_start_programs_on_many_devices(inner):
    assert "survived" in run(INNER.replace("INNER", repr(inner)))


@pytest.mark.parametrize("code", [NESTED, TOGETHER], ids=["nested", "together"])
def test_callbacks_start_them_from_callbacks_and_threads(code):
    assert "survived" in run(code)


def test_a_callback_that_holds_the_thread_of_a_device_is_refused():
    assert "survived" in run(TOO_FEW, PJRT_NPROC="8")


def test_a_callback_of_several_devices_starts_none_on_several():
    assert "survived" in run(JOINT)


def test_programs_that_wait_for_one_another_end_with_an_error():
    assert "survived" in run(ENTANGLED)


def test_the_runtime_has_spare_threads_unless_told_otherwise():
    from xlab.backend.calling import SPARE

    threads = {
        given: int(
            run(
                THREADS.replace("GIVEN", repr(given)),
                **({"PJRT_NPROC": given} if given else {}),
            )
        )
        for given in (None, "8", "50")
    }
    processors = len(os.sched_getaffinity(0))
    # Two pools, each of at least a thread per device.
    assert threads[None] - threads["8"] == 2 * (max(8 + SPARE, processors) - 8)
    assert threads["50"] - threads["8"] == 2 * (50 - 8)
