"""A hand-made report, rich enough to exercise every view: a transformer step on a 4×2 mesh."""

from __future__ import annotations

import itertools
import math
from functools import cache

from tests.notebook.views import sample_kernel
from tests.notebook.views.sample_program import FILE, MESH, program, source
from xlab.observe import records as r
from xlab.observe.records.caches import Caches
from xlab.observe.records.call_tree import Call
from xlab.observe.records.cost import CostSum, EquationCost, StepCost
from xlab.observe.records.diff import Figure
from xlab.observe.records.effects import PendingEffect, PendingEffects
from xlab.observe.records.finding import Amount, Finding, Pattern
from xlab.observe.records.kernel import KernelRun
from xlab.observe.records.live import Live, LiveArray
from xlab.observe.records.machine import Machine
from xlab.observe.records.nan_path import NanPath, Series, SeriesPoint
from xlab.observe.records.overlap import Between, Overlap
from xlab.observe.records.passes import Pass
from xlab.observe.records.processes import Attendance, Launch, Processes, ProcessInfo
from xlab.observe.records.replay import FlowEvent, Replay
from xlab.observe.records.resharding import Resharding
from xlab.observe.records.settings import Setting, Settings
from xlab.observe.records.sharding_tree import ShardingLeaf, ShardingTree
from xlab.observe.records.targets import AsyncOperation, Scheduled
from xlab.observe.records.timeline import DeviceTime, Operation, Timeline
from xlab.observe.records.transposed import Transposed
from xlab.observe.records.whatif import Ranking, WhatIf, placement_of, side_by_side


def layout(name, shape, spec, role, mesh=MESH, dtype="f32", **more) -> r.ArrayLayout:
    """A layout worked out by plain arithmetic."""
    sizes = dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True))
    blocks, seen = [], {}
    shard = tuple(
        math.ceil(n / math.prod(sizes[a] for a in axes))
        for n, axes in zip(shape, spec, strict=True)
    )
    for device, place in zip(
        mesh.device_ids, itertools.product(*map(range, mesh.axis_sizes)), strict=True
    ):
        at = dict(zip(mesh.axis_names, place, strict=True))
        slices = []
        for n, axes, part in zip(shape, spec, shard, strict=True):
            index = 0
            for a in axes:
                index = index * sizes[a] + at[a]
            slices.append((min(n, index * part), min(n, (index + 1) * part)))
        key = tuple(slices)
        blocks.append(r.Block(device, key, seen.setdefault(key, 0)))
        seen[key] += 1
    each = 4 * math.prod(shard)
    return r.ArrayLayout(
        name,
        r.Type(dtype, shape, spec),
        mesh,
        shard,
        tuple(blocks),
        mesh.size // len(seen),
        each,
        4 * math.prod(shape),
        True,
        "device",
        role,
        **more,
    )


def ring(groups, size):
    """The rounds of a ring all-gather or all-reduce half."""
    n = len(groups[0])
    return tuple(
        tuple((g[i], g[(i + 1) % n], size) for g in groups for i in range(n)) for _ in range(n - 1)
    )


DATA_GROUPS = ((0, 2, 4, 6), (1, 3, 5, 7))
MODEL_GROUPS = ((0, 1), (2, 3), (4, 5), (6, 7))


def transfers(p: r.Program) -> tuple[r.Transfer, ...]:
    """One written by the user, two added by the partitioner."""
    ids = {e.primitive: e.id for e in p.equations}
    inner = p.equations[1].nested[0].equations[4]
    return (
        r.Transfer(
            "all_reduce",
            "add",
            ("data",),
            DATA_GROUPS,
            (),
            24576,
            24576,
            1,
            31.0,
            "2·(4−1)/4 · 24.6 KB / 45 GB/s + 6·5 µs",
            44.0,
            12.0,
            "user",
            "psum",
            operand="f32[64,96]",
            equation=ids["psum"],
            source=source(18),
            rounds=ring(DATA_GROUPS, 6144) * 2,
            mesh=MESH,
            overlap=overlap(ids["psum"], inner.id),
        ),
        r.Transfer(
            "all_gather",
            "",
            ("model",),
            MODEL_GROUPS,
            (),
            8192,
            16384,
            12,
            18.0,
            "(2−1)/2 · 16.4 KB / 45 GB/s + 5 µs",
            25.0,
            6.0,
            "partitioner",
            reason="`w` arrives as P(None,'model'); dot_general on line 3 needs it whole along its contracting dimension.",
            fix="give w P('model', None) (then one all_reduce of 40 KB), or keep x sharded over model.",
            tried=True,
            operand="f32[64,192]",
            equation=inner.id,
            source=source(3),
            rounds=ring(MODEL_GROUPS, 8192),
            mesh=MESH,
        ),
        r.Transfer(
            "collective_permute",
            "",
            ("data",),
            (),
            tuple((i, (i + 2) % 8) for i in range(8)),
            4096,
            4096,
            None,
            None,
            "",
            None,
            None,
            "partitioner",
            reason="The halo of an uneven slice moves to the next shard.",
            equation=inner.id + 1,
            source=source(3),
            mesh=MESH,
        ),
    )


def overlap(start: int, between: int) -> Overlap:
    return Overlap(
        "Todo{f32[64,96]}",
        start,
        start + 1,
        source(18),
        source(18),
        (Between(between, "dot_general", 12.0), Between(between + 1, "sin")),
        44.0,
        "profile",
        machine="estimated with 50 GFLOP/s",
        overlapped_us=0.0,
        platform="cpu",
    )


def pending(found: r.Report) -> Overlap:
    return found.transfers[0].overlap


def phases() -> tuple[r.Phase, ...]:
    """A cold train step, then a cached evaluation step."""
    return (
        r.Phase("trace", "train_step", 0.0, 84e3),
        r.Phase("trace", "block", 12e3, 31e3, 1, 0),
        r.Phase("lower", "train_step", 84e3, 21e3),
        r.Phase(
            "compile",
            "train_step",
            105e3,
            1180e3,
            cache="miss",
            where="disk",
            reason="no entry for this program",
        ),
        r.Phase("execute", "train_step", 1285e3, 132e3),
        r.Phase("transfer", "device_put", 1417e3, 12e3),
        r.Phase("trace", "eval_step", 1430e3, 32e3),
        r.Phase("lower", "eval_step", 1462e3, 13e3),
        r.Phase("cache_hit", "eval_step", 1475e3, 60e3, cache="hit", where="disk"),
        r.Phase("execute", "eval_step", 1535e3, 14e3),
        r.Phase("execute", "train_step", 1560e3, 3.1e3, steady=True),
    )


def trace(p: r.Program) -> r.StepTrace:
    """Recorded steps through both loops, with one NaN."""
    steps: list[r.Step] = []

    def put(e, path):
        i = len(steps)
        low, high = -1.0 - (i % 7) / 10, 1.0 + (i % 5) / 10
        shards = tuple(
            r.ShardSummary(
                d,
                low,
                high,
                0.01 * d,
                0,
                0,
                tuple(
                    tuple(math.sin(i + d + y * 1.3 + x * 0.7) for x in range(8)) for y in range(8)
                ),
            )
            for d in range(8)
        )
        bad = 5 if i == 61 else 0
        out = tuple(
            r.Value(
                v.name,
                v.type.text,
                low,
                high,
                0.01,
                bad,
                0,
                (0.12, -0.53, 0.98),
                (1, 3, 8, 12, 9, 4, 2),
                (),
                shards,
            )
            for v in e.outputs
        )
        dead = tuple(x for x in e.inputs[:1] if i % 3 == 0)
        steps.append(r.Step(i, e.id, (), out, path, dead, e.source, e.text or e.primitive))

    for e in p.equations:
        if e.nested:
            for k in range(3):
                for inner in e.nested[0].equations:
                    put(inner, ("jit train_step", f"scan {k + 1}/12"))
        put(e, ("jit train_step",))
    return r.StepTrace(
        p, (r.Value("b", "f32[64@data,16,4]", 0.0, 16.0, 4.9, note="x"),), tuple(steps), len(steps)
    )


def resharding(found: r.Report) -> Resharding:
    """An argument of the sample laid out like another."""
    before, after = (
        found.layouts[0],
        found.layouts[0].replace(
            type=r.Type("f32", (64, 16), ((), ("model",))),
            shard_shape=(64, 8),
            blocks=tuple(
                r.Block(d, ((0, 64), (8 * (d % 2), 8 * (d % 2) + 8)), d // 2) for d in range(8)
            ),
            copies=4,
        ),
    )
    messages = tuple((s, t, 512) for t in range(8) for s in range(t % 2, 8, 2) if s != t)
    return Resharding(
        before,
        after,
        messages,
        tuple((d, 512) for d in range(8)),
        found.transfers[:1],
        found.layouts[2].warnings,
    )


def live(found: r.Report) -> Live:
    """Arrays alive, named after the sample."""
    made = r.Source(found.title + FILE, 3, function=found.title, text=found.title + " = f(x)")
    return Live(
        (
            LiveArray(
                found.title + "f32[64@data,16]",
                4096,
                found.title,
                tuple(range(8)),
                "P('data') over data=4 model=2",
                True,
                "",
                made,
            ),
            LiveArray("f32[16]", 64, "", (0,)),
        ),
        4200,
        1,
        tuple((d, 512 + 64 * (d == 0)) for d in range(8)),
        ((found.title + ", line 3", 1, 4096), ("unknown", 2, 104)),
    )


def sharding_tree(found: r.Report) -> ShardingTree:
    """Two layers that are alike, a leaf that all devices have, and one that lies on none."""
    word = found.title
    layers = tuple(
        ShardingLeaf((word + "layers", f"[{i}]", word), word + "f32[8,8@model]", "", 4, 128, 256)
        for i in range(2)
    )
    alone = ShardingLeaf((word + "rate",), word + "int")
    return ShardingTree(
        word,
        (*layers, ShardingLeaf(("b",), "f32[8]", word, 8, 32, 32), alone),
        MESH,
        tuple((d, 288 + d) for d in range(8)),
    )


def settings(found: r.Report) -> Settings:
    """Settings, of which one was changed."""
    return Settings(
        (
            Setting(found.title, "True", "local", "False", f"about {found.title}"),
            Setting("idle_one", "1", idle="nothing reads it"),
        ),
        3,
    )


def caches(found: r.Report) -> Caches:
    """Caches with something of everything."""
    dumps = tuple(f"xlab_ir{i:04d}_{found.title}_compile.mlir" for i in range(3))
    return Caches(5, 2, 2, 3, 4e5, True, 1, 1, 3e5, 2e3, found.title, 2, 1 << 20, "ir", dumps)


def effects(found: r.Report) -> PendingEffects:
    """Effects, one of each state."""
    return PendingEffects(
        tuple(
            PendingEffect(kind, (0, 1), found.title, done)
            for kind, done in (("print", False), ("callback", True), ("", None))
        )
    )


def kernel(found: r.Report) -> KernelRun:
    """A kernel's run with something of everything, named after the sample."""
    cores, blocks = sample_kernel.race(), sample_kernel.padded()
    word = found.title
    return cores.replace(
        name=word + cores.name,
        operands=tuple(
            o.replace(name=word + o.name, space=word + o.space, index_map=word, alias=word)
            for o in (*sample_kernel.padded().operands, *cores.operands[:2])
        ),
        grid=blocks.grid,
        grid_names=(word,),
        pairs=tuple(p.replace(mesh=word, fn=word + p.fn) for p in cores.pairs),
        events=tuple(
            e.replace(operand=word + e.operand) for e in blocks.events
        ) + tuple(e.replace(ref=word + e.ref, eqn=word) for e in cores.events),
        equations=(sample_kernel.KernelEquation(word, word, source(3)),),
        edges=sample_kernel.producer_consumer().edges,
        races=tuple(x.replace(ref=word + x.ref) for x in cores.races),
        cost=sample_kernel.matmul().cost,
        buffers=tuple(b.replace(name=word + b.name, owner=word) for b in cores.buffers),
        faults=tuple(f.replace(text=word) for f in blocks.faults),
        lints=tuple(x.replace(text=word, fix=word) for x in sample_kernel.softmax().lints),
        steps=blocks.steps,
        scheduled_by=word,
        made=word,
        left_out=(word,),
        others=(sample_kernel.deadlock(),),
    )  # fmt: skip


def replay(found: r.Report) -> Replay:
    """A permute step by step, named after the sample."""
    word = found.title
    whole = ((0, 2),)
    events = (
        FlowEvent(0, -1, 0, 0, "keep", 0, 0, (), whole, fill=0),
        FlowEvent(0, 0, 1, 8, "copy", 0, 0, whole, whole),
        FlowEvent(0, 1, 2, 8, "copy", 0, 0, whole, whole),
    )
    inputs = tuple((f"{k}", f"{word}{k}") for k in range(3))
    return Replay(
        f"ppermute of {word}",
        "ppermute",
        "collective_permute",
        "direct",
        r.Type("f32", (2,), varying=(word,)),
        r.Type("f32", (2,), varying=(word,), reduced=("other",)),
        r.MeshInfo((word,), (3,), (0, 1, 2)),
        axes=(word,),
        groups=((0, 1, 2),),
        bytes_in=8,
        wire_bytes=16,
        steps=1,
        formula=f"hα + L/β = {word}",
        stablehlo=f"stablehlo.collective_permute {word}",
        source=r.Source(word + FILE, 3, function=word, text=word + " = f(x)"),
        events=events,
        devices=(0, 1, 2),
        inputs=inputs,
        tiles=((("·", "·"),) * 3, (("0", "0"), *inputs[:2])),
    )


def transposed(found: r.Report) -> Transposed:
    """The sample's collectives backwards in the other order."""
    moved = tuple(t.replace(rounds=(), formula="", mesh=None) for t in found.transfers[:2])
    return Transposed(found.title, moved, moved[:1], ((0,), ()))


def weighed(found: r.Report) -> WhatIf:
    """The sample beside itself with one argument placed otherwise."""
    other = found.replace(
        layouts=(found.layouts[1], *found.layouts[1:]), transfers=found.transfers[:1]
    )
    return side_by_side(found, other)


def ranking(found: r.Report) -> Ranking:
    """Two placements of the sample."""
    return Ranking(
        "train_step", (placement_of(found, "x P('data')"), placement_of(found, "x P()")), 7, 1
    )


def step_cost(found: r.Report) -> StepCost:
    """What the sample's program costs, with its structure."""
    p = found.programs[0]
    attention = Call("attention", 6, 1, source(3), (2, 3), 4e6, 2e5, 1e3, 900.0, 600.0, first=2)
    block = Call("block", 6, 6, source(2), (4,), 9e6, 5e5, 1e3, 1500.0, 1000.0, (attention,), 2)
    tree = Call("train_step", 1, 1, None, (0,), 1e7, 6e5, 2e3, 1900.0, 1100.0, (block,), 0)
    machine = Machine(
        "cpu", "round numbers of a small CPU, not measured", (("f32", 5e10),), memory=16_000_000_000,
        share=2.0, shared_memory=True, convolution=1e10,
    )  # fmt: skip
    equation = EquationCost(2, "dot_general", 1e6, 0.0, 3e4, 4e4, 0.0, 20.0, "compute", 1, False, source(3), "layer")  # fmt: skip
    lines = (
        CostSum("cell:3", 1500.0, 900.0, 9e6, 5e5, 1e3, "compute", source(3), (2, 3)),
        CostSum("cell:5", 400.0, 0.0, 1e6, 1e5, 0.0, "memory", source(5), (4,)),
    )
    return StepCost(
        p.name, machine, 8, (equation,), lines, (CostSum("layer", 20.0),), tree, 1400.0, 500.0, 100.0, 2000.0,
        "compute", 1100.0, 3_400_000, 16_000_000_000, ("loops of unknown length count once",), 0, 1e7, 6e5, 2e3,
    )  # fmt: skip


def timeline(found: r.Report) -> Timeline:
    """Two devices that meet in a sum: the second comes late, and computes beside it; a loop around."""
    where = f"{FILE}:4"
    return Timeline(
        "train_step",
        40.0,
        (0, 1),
        (
            Operation("while.1", 0, 0.0, 30.0, "loop"),
            Operation("fusion.1", 0, 0.0, 8.0, equation=7, where=where),
            Operation("fusion.1", 1, 2.0, 14.0, equation=7, where=where),
            Operation(
                "all-reduce.1", 0, 9.0, 16.0, "collective", ((9.5, 16.0),), 0, 8, where, 0, 1
            ),
            Operation("all-reduce.1", 1, 16.0, 9.0, "collective", (), 0, 8, where, 0, 1),
            Operation("copy.3", 1, 18.0, 4.0, lane=1),
            Operation("fusion.2", 0, 26.0, 14.0),
        ),
        (DeviceTime(0, 22.0, 9.5, 6.5, 0.0, 2.0), DeviceTime(1, 18.0, 5.0, 0.0, 4.0, 17.0)),
        ((0, ((0.0, 4096), (26.0, 8192))), (1, ((2.0, 4096),))),
        5,
        2,
    )


def findings() -> tuple[Finding, ...]:
    """Two findings, one with a change that was tried."""
    return (
        Finding(
            "removable collective", "`w` is gathered whole over model", 786_432, 31.0, "give w P('model', None)",
            "25 → 24 collectives", "collectives", source(3), 3, 0, "attention",
            outcome=(Amount("sent per device", 786_432, 0),),
        ),
        Finding("unused argument", "`rng` is given and not used", 8),
    )  # fmt: skip


def patterns() -> tuple[Pattern, ...]:
    return (Pattern("data-parallel gradient sum", 12, 1_200_000, ("data",), (3, 4)),)


def nan_path(steps: r.StepTrace) -> NanPath:
    """From an infinity to the result that has a NaN of it."""
    a, b = steps.steps[:2]
    return NanPath("train_step", (a, b), ("made 1 Inf", "made 1 NaN of it"), 1, "x", "loss")


def series(steps: r.StepTrace) -> Series:
    """One variable at two steps of a run, of three."""
    points = tuple(SeriesPoint(s.index, s.path, s.outputs[0]) for s in steps.steps[:2])
    return Series("y", points, 3)


def processes(word: str = "train_step") -> Processes:
    """Two processes on two hosts: the second comes late to a sum, twice."""
    met = (
        ((0, 0, 10.0, 68.0), (0, 1, 12.0, 68.5), (1, 2, 66.0, 69.0), (1, 3, 65.0, 69.0)),
        ((0, 0, 80.0, 139.0), (0, 1, 81.0, 139.0), (1, 2, 135.0, 140.0), (1, 3, 136.0, 139.5)),
    )
    return Processes(
        2,
        tuple(
            ProcessInfo(
                k, f"{word}{k}", 4000 + k, (2 * k, 2 * k + 1), 1.7e15 + k, 2e3, 1.5 * k, 0.4 * k, 200_000_000 + k * 9_000_000, 16_384,
                (
                    r.Phase("compile", word, 100.0 * k, 900.0),
                    r.Phase("execute", word, 1000.0 + 50 * k, 300.0),
                    r.Phase("gate", word, 1001.0 + 50 * k, 60.0 - 50 * k, 1),
                ),
                ((word, 900.0, ("", "disk hit")[k]),),
                ("", f"ValueError: {word}")[k],
            )
            for k in (0, 1)
        ),
        tuple(Launch(k, 0, word, "0a1b2c", f"{FILE}:4" if word == "train_step" else word, 1000.0 + 50 * k, 1300.0 + 50 * k, 60.0 - 50 * k) for k in (0, 1)),
        (Attendance(("psum" if word == "train_step" else word), "all-reduce.1", "all_reduce", 0, 8, f"{FILE}:4", (0, 1, 2, 3), met),),
    )  # fmt: skip


@cache  # records do not change
def report() -> r.Report:
    """The whole sample."""
    p = program()
    moved = transfers(p)
    return r.Report(
        "train_step",
        (p,),
        (
            layout("x", (64, 16), (("data",), ()), "argument"),
            layout(
                "params['qkv']",
                (64, 192),
                ((), ("model",)),
                "argument",
                why=(
                    "argument was given P(None, 'model') → kept by dot_general (line 3) → gathered over model here",
                ),
            ),
            layout(
                "params['ln1']",
                (64,),
                ((),),
                "argument",
                warnings=(
                    "replicated on all 8 devices although `data` divides its first dimension",
                ),
            ),
            layout("logits", (64, 10), (("data",), ()), "output"),
            layout("h", (8, 4), (("data",), ("model",)), "intermediate", equation=3),
            layout("s", (4, 8, 16), (("data",), ("model",), ()), "intermediate", equation=9),
        ),
        moved,
        phases(),
        (
            r.Timing("train_step", 1417e3, 3100.0, 80.0, 20),
            r.Timing("eval_step", 120e3, 1200.0, 40.0, 20),
        ),
        (
            r.Memory(
                "train_step",
                1_400_000,
                800_000,
                1_100_000,
                600_000,
                90_000,
                3_400_000,
                12,
                tuple(
                    r.Buffer(
                        f"buffer.{i}",
                        400_000 // (i + 1),
                        ("argument", "temporary", "output")[i % 3],
                        i,
                        min(29, i + 6 + i % 5),
                        f"fusion.{i}",
                        i,
                        source(3 + i % 6),
                    )
                    for i in range(24)
                ),
                ("params",),
                (("x", "its size 4096 B matches no output"),),
            ),
        ),
        (
            Pass(
                "after propagation",
                "shardy",
                1,
                1,
                1200.0,
                "shardy",
                ((1, ("  %0 = dot",), ("  %0 = dot {sharding}",)),),
                "func @main {\n  %0 = dot\n  return %0\n}",
            ),
            Pass(
                "output module",
                "shardy",
                1,
                0,
                300.0,
                "shardy",
                ((2, (), ("  %1 = all_gather %0",)),),
            ),
            Pass("algsimp", "xla", duration_us=90.0, runs=3),
            Pass(
                "fusion",
                "xla",
                1,
                2,
                5200.0,
                "HLO passes",
                (
                    (
                        2,
                        ("  %m = mul(%a, %b)  # e2", "  %s = add(%m, %c)  # e4"),
                        ("  %fusion = fusion(%a, %b, %c)  # e4",),
                    ),
                ),
                "HloModule jit_train_step\nENTRY %main {\n  %m = mul(%a, %b)  # e2\n  %s = add(%m, %c)  # e4\n}",
            ),
            Pass(
                "copy-insertion",
                "xla",
                900,
                900,
                40.0,
                "HLO passes",
                cut="9,000 characters of changes are not kept",
            ),
            Pass("Codegen", "codegen", duration_us=70000.0),
        ),
        r.Ledger(
            (
                r.Compilation("train_step", 1, 1180e3, "first call"),
                r.Compilation(
                    "train_step",
                    3,
                    1180e3,
                    "`x` went from f32[64,64] to f32[61,64]; the last batch is short.",
                    "loader(drop_last=True)",
                    (r.Difference("shape", "x", "f32[64,64]", "f32[61,64]"),),
                    source(16),
                ),
            )
        ),
        trace(p),
        MESH,
        (
            r.Notice(
                "warning",
                "the partitioner added 13 collectives that nobody wrote",
                "collectives",
                "give w P('model', None)",
                moved[1].equation,
                0,
                source(3),
            ),
        ),
        None,
        (("xlab", "0.1.0"), ("jaxlib", "0.10.2"), ("python", "3.11.7")),
        log=(
            r.LogLine("Finished tracing train_step for jit in 0.084 sec", "WARNING", 84e3, 0),
            r.LogLine(
                "Finished XLA compilation of jit(train_step) in 1.180 sec", "WARNING", 1285e3, 3
            ),
            r.LogLine("somebody's own line", "INFO", 1600e3),
        ),
    )


def scheduled(word: str = "train_step") -> Scheduled:
    """The sample's program as a TPU's compiler might schedule it."""
    level = r.Level(
        "tpu:v5e:2x4",
        "HloModule m, is_scheduled=true\n\nENTRY %main {\n  %copy-start = copy-start(%w)\n  %d = dot(%x)\n}",
        ((5, (4,)),),
    )
    return Scheduled(
        "tpu:v5e:2x4",
        word,
        "TPU v5 lite",
        8,
        (
            Figure("program", "instructions", "120", "80", "×0.67"),
            Figure("memory", "arguments", "1.4 MB", "1.4 MB"),
            Figure("cost", "best time, by its compiler's model", "", "8.18 µs"),
        ),
        (
            AsyncOperation("copy", "copy-start", "copy-done", 3, 4096, 4),
            AsyncOperation(word, "start", "done", 0, 8),
        ),
        level,
        doubts=(
            f"a peak of 60.8 MB of {word}, more than arguments, outputs, temporaries and code together",
        ),
    )
