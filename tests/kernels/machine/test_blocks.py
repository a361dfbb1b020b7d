"""Events of blocks and accesses, and the record that views draw (K82, K86, K100, K102, K104)."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.kernels.machine.examples import SDS, add_one, matmul, worked
from xlab import numpy as jnp
from xlab.kernels import (
    BlockSpec,
    Element,
    MemorySpace,
    PrefetchGridSpec,
    SemaphoreType,
    kernel_call,
    semaphore_signal,
    semaphore_wait,
    store,
)
from xlab.kernels.copies import make_async_copy
from xlab.kernels.machine import BlockEvent, Machine, trace_blocks
from xlab.ref import addupdate


def blocks(machine):
    return [e for e in machine.events() if isinstance(e, BlockEvent)]


def test_k82_event_fields():
    call, x, y = matmul(2, 2, 2)
    machine = Machine(call, x, y)
    machine.run()
    access = next(e for e in machine.accesses("args[0]") if e.grid == (1, 0, 1)).to_dict()
    assert list(access) == [
        "t", "pair", "core", "grid", "eqn", "ref", "kind", "slice", "masked", "digest",
    ]  # fmt: skip
    assert access["slice"] == [[8, 16], [8, 16]]  # in coordinates of the array
    block = next(e for e in blocks(machine) if e.operand == "outputs[0]" and e.step == 3).to_dict()
    assert block == {
        "step": 3,
        "grid": [0, 1, 1],
        "operand": "outputs[0]",
        "io": "write",
        "index": [0, 1],
        "start": [0, 8],
        "shape": [8, 8],
        "squeezed": [],
        "pad": [0, 0],
        "clamped": False,
        "visit": 2,
        "core": 0,
        "pair": 0,
    }


def test_k100_matmul_block_events():
    call, x, y = matmul(2, 3, 2)
    events = trace_blocks(call, x, y)
    of = {
        name: [e for e in events if e.operand == name]
        for name in ("args[0]", "args[1]", "outputs[0]")
    }
    assert {len(v) for v in of.values()} == {12}  # visits add up to the grid
    assert {(e.grid[0], e.grid[2]): e.index for e in of["args[0]"]} == {
        (i, k): (i, k) for i in range(2) for k in range(2)
    }
    assert [e.visit for e in of["outputs[0]"]] == [1, 2] * 6


@pytest.mark.parametrize("kind", ["matmul", "padded", "element", "squeezed"])
def test_k86_k104g_trace_blocks_is_what_a_run_tells(kind):
    if kind == "matmul":
        call, *args = matmul(2, 3, 2)
    elif kind == "padded":
        call, *args = add_one()
    elif kind == "element":

        def kernel(x, o):
            o[...] = x[...]

        call = kernel_call(
            kernel,
            SDS((8,), "float32"),
            grid=2,
            in_specs=[BlockSpec((Element(4, (1, 1)),), lambda i: (3 * i,))],
            out_specs=BlockSpec((4,), lambda i: (i,)),
        )
        args = [np.arange(6, dtype=np.float32)]
    else:

        def kernel(x, o):
            o[...] = x[...]

        call = kernel_call(
            kernel,
            SDS((3, 4), "float32"),
            grid=3,
            in_specs=[BlockSpec((None, 4), lambda i: (2 - i, 0))],
            out_specs=BlockSpec((None, 4), lambda i: (i, 0)),
        )
        args = [np.zeros((3, 4), np.float32)]
    machine = Machine(call, *args)
    machine.run()
    assert trace_blocks(call, *args) == blocks(machine)


def test_k104g_block_events_by_plain_enumeration():
    call, x = add_one(10, 4)
    events = trace_blocks(call, x)
    want = []
    for i in range(3):
        pad = max(0, 4 * i + 4 - 10)
        want += [
            (i, "args[0]", "read", (4 * i,), (pad,)),
            (i, "outputs[0]", "write", (4 * i,), (pad,)),
        ]
    assert [(e.step, e.operand, e.io, e.start, e.pad) for e in events] == want


def test_trace_blocks_needs_index_maps_without_data():
    def kernel(order, x, o):
        o[...] = x[...]

    spec = PrefetchGridSpec(
        1,
        grid=2,
        in_specs=[BlockSpec((4,), lambda i, order: (order[i],))],
        out_specs=BlockSpec((4,), lambda i, order: (i,)),
    )
    call = kernel_call(kernel, SDS((8,), "int32"), grid_spec=spec)
    args = np.array([1, 0], np.int32), jnp.arange(8)
    with pytest.raises(ValueError, match=r"index map of args\[1\] reads prefetched"):
        trace_blocks(call, *args)
    machine = Machine(call, *args)
    assert machine.run()[0].tolist() == [4, 5, 6, 7, 0, 1, 2, 3]
    assert [e.start for e in blocks(machine) if e.io == "read"] == [(4,), (0,)]


def test_k102_record_is_json_and_reads_as_text():
    call, x = add_one()
    machine = Machine(call, x)
    machine.run()
    data = json.loads(machine.to_json())
    assert set(data) >= {"operands", "grid", "pairs", "events", "schedule", "races", "cost"}
    assert data["operands"][0] == {
        "name": "args[0]",
        "role": "input",
        "shape": [10],
        "dtype": "float32",
        "space": "default",
    }
    assert data["grid"] == [3]
    assert data["pairs"][0]["fn"] == "kernel"
    assert data["schedule"]["entries"] == [[0, 0, machine.count]]
    texts = [e["text"] for e in data["pairs"][0]["equations"].values()]
    assert any("<- a[...]" in t for t in texts)
    assert {e["eqn"] for e in data["events"] if "eqn" in e} <= set(data["pairs"][0]["equations"])
    first = str(machine.record()).splitlines()[0]
    assert first == (
        "core 0, step (0): reads args[0][0:4], reads args[0][0:4], writes outputs[0][0:4], writes outputs[0][0:4]"
    )


def test_k102_record_of_several_pairs():
    machine = Machine(worked(), schedule="round_robin")
    machine.run()
    data = json.loads(machine.to_json())
    assert [p["mesh"] for p in data["pairs"]] == [[["p", 1]], [["q", 2]]]
    assert [p["core_type"] for p in data["pairs"]] == ["scalar", "vector"]
    assert [p["cores"] for p in data["pairs"]] == [[0], [1, 2]]
    blocked = [e for e in data["events"] if e.get("blocked")]
    assert [(e["core"], e["count"], e["present"]) for e in blocked] == [(1, 1, 0), (2, 1, 0)]
    passed = [e for e in data["events"] if e["kind"] == "wait" and "signals" in e]
    signals = {e["t"] for e in data["events"] if e["kind"] == "signal"}
    assert {t for e in passed for t in e["signals"]} == signals


def test_k104h_a_log_replays_to_identical_outputs():
    machine = Machine(worked(False), schedule="random")
    out = machine.run()
    entries = json.loads(machine.to_json())["schedule"]["entries"]
    again = Machine(worked(False), schedule=[core for _, core, n in entries for _ in range(n)])
    np.testing.assert_array_equal(again.run()[0], out[0])
    assert again.events() == machine.events()


def test_k82_every_kind_of_access():
    def kernel(x, o, s, sem, dma):
        o[...] = x[...]
        addupdate(o, slice(0, 2), x[2:4])
        store(o, slice(4, 8), x[0:4], mask=jnp.arange(4) < 1)
        copy = make_async_copy(x.at[4:6], s.at[2:4], dma)
        copy.start()
        copy.wait()
        semaphore_signal(sem, 2)
        semaphore_wait(sem, 2)

    types = [MemorySpace.LOCAL((4,), "float32"), SemaphoreType.REGULAR, SemaphoreType.DMA]
    call = kernel_call(kernel, SDS((8,), "float32"), scratch_shapes=types)
    x = np.arange(8, dtype=np.float32)
    machine = Machine(call, x)
    machine.run()
    told = [(e.kind, e.ref, *e.box, e.masked) for e in machine.accesses()]
    assert told == [
        ("read", "args[0]", (0, 8), 0),
        ("write", "outputs[0]", (0, 8), 0),
        ("read", "args[0]", (2, 4), 0),
        ("accum", "outputs[0]", (0, 2), 0),
        ("read", "args[0]", (0, 4), 0),
        ("write", "outputs[0]", (4, 5), 3),
        ("copy", "args[0]", (4, 6), 0),
        ("copy", "args[0]", (4, 6), 0),
        ("wait", "scratch[2]", 0),
        ("signal", "scratch[1]", 0),
        ("wait", "scratch[1]", 0),
    ]
    started, done = (e for e in machine.accesses() if e.kind == "copy")
    assert dict(done.more) == {
        "to": "scratch[0]", "to_slice": ((2, 4),), "done": True, "started": started.t,
    }  # fmt: skip
    # Equal values have one digest, whatever touched them.
    reads = [e for e in machine.accesses("args[0]") if e.kind == "read"]
    assert reads[0].digest == machine.accesses("outputs[0]")[0].digest != reads[1].digest

    def one(x, o):
        o[...] = x[4:6]

    again = Machine(kernel_call(one, SDS((2,), "float32")), x)
    again.run()
    assert done.digest == again.accesses("args[0]")[0].digest != 0
