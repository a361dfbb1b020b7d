"""Placements tried on a traced program: the same answers as placing the arguments so, meshes of any size, and words for what cannot be."""

import numpy as np
import pytest

import xlab
from tests.observe import sample_programs as programs
from xlab import lax, observe
from xlab.observe.records import Record
from xlab.observe.records.whatif import WhatIf
from xlab.observe.sharding.experiment import mesh_of, placements_of
from xlab.sharding import AxisType, NamedSharding, make_mesh, reshard, set_mesh
from xlab.sharding import PartitionSpec as P


def operands():
    return programs.put(np.ones((64, 128)), "data", None), programs.put(
        np.ones((128, 256)), None, "data"
    )


def layer(x, w):
    wanted = NamedSharding(programs.mesh(), P("data", "model"))
    return lax.with_sharding_constraint(lax.tanh(programs.matmul(x, w)), wanted)


@pytest.fixture(scope="module")
def tried():
    return observe.Experiment(xlab.jit(layer), *operands())


def test_what_if_is_what_placing_the_arguments_gives(tried):
    found = tried.weigh({1: ((), ("model",))})
    x, w = operands()
    moved = (
        xlab.jit(layer)
        .lower(x, xlab.device_put(w, NamedSharding(programs.mesh(), P(None, "model"))))
        .compile()
    )
    assert (
        found.after.collectives == () == tuple(t for t in observe.transfers(moved) if t.instruction)
    )
    assert (
        found.after.peak == observe.memory(moved).peak
        and found.before.added == 1
        and found.before.sent == 3 * 32768
    )
    assert found.changed == (("w", "f32[128,256@data]", "f32[128,256@model]"),)
    assert Record.from_json(found.to_json()) == found
    said = observe.text(found).splitlines()
    assert said[0] == "layer: `w` as f32[128,256@model] instead of f32[128,256@data]"
    assert [line.split() for line in said[2:5]] == [
        ["collectives", "1", "0"],
        ["from", "disagreement", "1", "0"],
        ["sent", "per", "device", "98.3", "KB", "0", "B"],
    ]
    assert "now: all_gather over data" in said[-1]


def test_a_mesh_larger_than_the_machine(tried):
    found = tried.weigh({1: ((), ("model",))}, {"data": 64, "model": 8})
    assert found.after.mesh.size == 512 and found.after.arguments == (
        ("x", "f32[64@data,128]"),
        ("w", "f32[128,256@model]"),
    )
    assert found.after.collectives == () and found.after.peak < found.before.peak
    assert len(xlab.devices()) == 8 and float(xlab.jit(layer)(*operands()).sum()) == 64 * 256, (
        "what runs is as it was"
    )
    smaller = tried.weigh({}, {"data": 2})
    assert smaller.after.mesh.axis_names == ("data",) and "mesh data=2 instead of" in observe.text(
        smaller
    )


def test_placements_give_each_axis_to_one_dimension_it_divides():
    found = list(placements_of((4, 6), {"a": 4, "b": 2}))
    assert (("a",), ("b",)) in found and ((), ("a",)) not in found and ((), ()) in found
    assert len(found) == len(set(found)) and (("a", "b"), ()) not in found


def test_constraints_go_along_to_another_mesh_and_what_cannot_says_so():
    x, _ = operands()
    manual = xlab.shard_map(
        lambda x: lax.psum(x, "data"), mesh=programs.mesh(), in_specs=P("data"), out_specs=P()
    )
    stages = observe.Experiment(xlab.jit(manual), x)
    assert [t.kind for t in stages.now().collectives] == ["all_reduce"]
    with pytest.raises(ValueError, match="shard_map over the mesh"):
        stages.weigh({}, {"data": 8, "model": 1})
    with pytest.raises(ValueError, match="names each of the axes data, model at most once"):
        stages.weigh({0: (("nope",), ())})
    with pytest.raises(ValueError, match="at most once"):
        stages.weigh({0: (("data",), ("data",))})
    with pytest.raises(ValueError, match="4,096 in all"):
        mesh_of({"a": 1 << 20})
    with pytest.raises(ValueError, match="lies on no mesh"):
        observe.Experiment(xlab.jit(lambda x: x + 1), np.ones(3))


def test_arguments_that_are_unused_donated_or_nested():
    mesh = programs.mesh()

    def step(params, unused, x):
        return {"w": params["w"] - 1}, programs.matmul(x, params["w"])

    x, w = operands()
    stages = observe.Experiment(xlab.jit(step, donate_argnums=0), {"w": w}, x, x)
    assert stages.names == ["params['w']", "x"]
    found = stages.weigh({0: ((), ("model",))})
    assert isinstance(found, WhatIf) and found.after.collectives == () and mesh.size == 8
    found = stages.search([1], prove=0)
    assert found.varied == ("x",) and found.now.name == "now"


def explicit():
    mesh = make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
    put = [
        xlab.device_put(np.ones(shape, np.float32), NamedSharding(mesh, P(*spec)))
        for shape, spec in (((8, 16), ("data", None)), ((16, 4), (None, None)))
    ]
    return mesh, *put


@pytest.mark.parametrize("given", ["function", "stage", "executable"])
def test_explicit_types_are_traced_again(given):
    _, x, w = explicit()
    f = xlab.jit(lambda x, w: lax.tanh(x @ w))
    with observe.record() as session:
        f(x, w)
    stages = {
        "function": lambda: observe.Experiment(f, x, w),
        "stage": lambda: observe.Experiment(f.lower(x, w).compile()),
        "executable": lambda: observe.Experiment(session.subjects[0]),
    }[given]()
    listed = len(observe.ledger().entries)
    found = stages.weigh({0: ((), ()), 1: ((), ("model",))})
    assert found.after.arguments == (
        ("x", "f32[8,16]"),
        ("w", "f32[16,4@model]"),
    ) and found.before.arguments[0] == ("x", "f32[8@data,16]")
    other = stages.weigh({0: (("data",), ())}, {"data": 2, "model": 4})
    assert other.after.mesh.text == "data=2 model=4" and other.after.mesh.axis_types == (
        "Explicit",
        "Explicit",
    )
    assert stages.search([1], prove=0).found and len(observe.ledger().entries) == listed


def test_explicit_placements_that_are_no_program_say_why():
    mesh, x, _ = explicit()
    added = observe.Experiment(xlab.jit(lambda x, y: x + y), x, x)
    with pytest.raises(ValueError, match="is no program with its arguments placed so: .*data.*"):
        added.weigh({1: ((), ("data",))})
    fixed = observe.Experiment(xlab.jit(lambda x: reshard(x, NamedSharding(mesh, P()))), x)
    assert fixed.weigh({0: (("model",), ())}).after.arguments == (("x", "f32[8@model,16]"),)
    with pytest.raises(ValueError, match="names the mesh|is no program"):
        fixed.weigh({}, {"data": 8, "model": 1})
    power = observe.Experiment(xlab.jit(lambda x, n: x**n, static_argnums=1), x, 2)
    with pytest.raises(ValueError, match="static arguments.*what_if"):
        power.weigh({0: ((), ())})


def test_a_shard_map_over_the_current_mesh_goes_along():
    x, _ = operands()
    with set_mesh(programs.mesh()):
        f = xlab.jit(
            lambda x: xlab.shard_map(
                lambda x: lax.psum(x, "data"), in_specs=P("data"), out_specs=P()
            )(x)
        )
        stages = observe.Experiment(f, x)
        found = stages.weigh({}, {"data": 8, "model": 1})
    assert found.after.mesh.text == "data=8 model=1" and [
        t.kind for t in found.after.collectives
    ] == ["all_reduce"]


def test_parts_of_a_fused_operation_are_shared_by_work():
    from xlab.observe.programs.stages import program_stages
    from xlab.observe.timing.costs import fused_shares

    x = np.ones((128, 128), np.float32)
    stages = program_stages(lambda a: lax.reduce_sum(lax.tanh(lax.mul(a, a)), (0, 1)), (x,))
    for i in stages.hlo.instructions():
        ids = stages.hlo.equations_of(i)
        parts = fused_shares(stages.equations, ids)
        assert sum(parts.values()) == pytest.approx(1 if ids else 0)
    names = {n: e.primitive.name for n, e in stages.equations.items()}
    seen = 0
    for i in stages.hlo.instructions():
        parts = {
            names[n]: part
            for n, part in fused_shares(stages.equations, stages.hlo.equations_of(i)).items()
        }
        if {"tanh", "mul"} <= parts.keys():
            seen += 1
            assert parts["tanh"] > 5 * parts["mul"]
    assert seen
