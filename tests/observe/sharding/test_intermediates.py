"""Intermediates against Shardy's own record of its steps: every value, the chain that decided it, and what is flagged."""

import re

import numpy as np

import xlab
from tests.observe import sample_programs as programs
from xlab import lax, observe
from xlab.observe.programs.stages import program_stages
from xlab.observe.records import MeshInfo
from xlab.observe.sharding.intermediates import blocks_of, uneven
from xlab.observe.sharding.program_layouts import program_layouts
from xlab.sharding import NamedSharding
from xlab.sharding import PartitionSpec as P


def layouts(fun, *args):
    stages = program_stages(xlab.jit(fun), args)
    stages.executable
    return program_layouts(stages)


def two():
    return programs.put(np.ones((8, 16)), "data", None), programs.put(
        np.ones((16, 16)), None, "model"
    )


def test_a_chain_per_axis_from_the_argument_to_the_value():
    def f(x, w):
        return lax.neg(lax.tanh(programs.matmul(x, w)))

    found = {x.name: x for x in layouts(f, *two())}
    (hidden,) = (
        x for x in found.values() if x.role == "intermediate" and x.why and "tanh" in x.why[0]
    )
    assert (
        hidden.type.text == "f32[8@data,16@model]"
        and hidden.shard_shape == (2, 8)
        and len(hidden.blocks) == 8
    )
    assert re.fullmatch(
        r"data: argument `x` was given P\('data', None\) → kept by dot_general \(line \d+\) → kept by tanh \(line \d+\)",
        hidden.why[0],
    )
    assert hidden.why[1].startswith(
        "model: argument `w` was given P(None, 'model') → kept by dot_general"
    )
    assert "kept by neg" in next(x for x in found.values() if x.role == "output").why[0]


def test_a_constraint_is_carried_back_and_partial_sums_are_named():
    def f(x, w):
        y = programs.matmul(lax.tanh(x), w)
        return lax.with_sharding_constraint(y, NamedSharding(programs.mesh(), P(None, "data")))

    x, w = (
        programs.put(np.ones((8, 16)), None, "model"),
        programs.put(np.ones((16, 16)), "model", None),
    )
    found = layouts(f, x, w)
    product = next(x for x in found if x.role == "intermediate" and x.type.spec == ((), ("data",)))
    assert (
        "with_sharding_constraint (line" in product.why[0]
        and "asks for P(None, 'data')" in product.why[0]
    )
    assert product.why[0].endswith("summed over model here")


def test_values_of_loops_and_of_called_functions():
    @xlab.jit
    def inner(v):
        return lax.sin(v)

    def f(x, w):
        def body(c, _):
            return lax.tanh(programs.matmul(c, w)), lax.reduce_sum(c, (0, 1))

        return lax.scan(body, inner(x), None, length=3)

    stages = program_stages(xlab.jit(f), two())
    stages.executable
    found = program_layouts(stages)
    of = {stages.equations[x.equation].primitive.name: x for x in found if x.role == "intermediate"}
    assert {"jit", "sin", "dot_general", "tanh"} & set(of) >= {"sin", "dot_general", "tanh"}
    assert of["sin"].type.spec == of["tanh"].type.spec == (("data",), ("model",))
    assert any("carried back by scan" in chain for chain in of["sin"].why)


def test_what_does_not_divide_is_shown_padded_and_flagged():
    found = layouts(lambda x: lax.sin(lax.pad(x, np.float32(0), ((1, 1, 0), (0, 0, 0)))), two()[0])
    (padded,) = (x for x in found if x.role == "intermediate")
    assert padded.shard_shape == (3, 16) and "padded to 12" in padded.warnings[0]
    out = next(x for x in found if x.role == "output")
    assert out.why[-1] == "gathered over data to leave the program"
    assert "padded to 12" in observe.text(padded)


def test_outputs_have_the_names_of_their_places_in_what_the_function_returns():
    found = layouts(
        lambda x: {"loss": lax.reduce_sum(x, (0, 1)), "seen": (x, lax.neg(x))}, two()[0]
    )
    names = [x.name for x in found if x.role == "output"]
    assert names == ["result['loss']", "result['seen'][0]", "result['seen'][1]"]


def test_blocks_of_parts_of_an_axis():
    mesh = MeshInfo(("a",), (4,), (0, 1, 2, 3))
    assert [b.slices[0] for b in blocks_of(mesh, (("a:(1)2",),), (8,))] == [
        (0, 4),
        (0, 4),
        (4, 8),
        (4, 8),
    ]
    assert [b.slices[0] for b in blocks_of(mesh, (("a:(2)2",),), (8,))] == [
        (0, 4),
        (4, 8),
        (0, 4),
        (4, 8),
    ]
    assert uneven((("a",),), (8,), mesh) == ()


def test_blocks_are_those_of_the_sharding():
    mesh = programs.mesh()
    from xlab.observe.programs.program import mesh_info

    for spec in (P("data", "model"), P(("model", "data")), P(None, ("data", "model")), P()):
        sharding = NamedSharding(mesh, spec)
        listed = tuple(tuple(spec.axes_of(d) or ()) if d < len(spec) else () for d in range(2))
        assert (
            blocks_of(mesh_info(mesh), listed, (8, 16)) == observe.layout(sharding, (8, 16)).blocks
        )


def test_what_is_rebuilt_whole_is_flagged_where_it_lies():
    def f(x):
        y = lax.tanh(x)
        return lax.sin(
            lax.with_sharding_constraint(y, NamedSharding(programs.mesh(), P(None, "model")))
        )

    with observe.record() as session:
        xlab.jit(f)(two()[0])
    report = observe.report(session)
    flagged = [x for x in report.layouts if x.warnings]
    assert [x.name for x in flagged] == ["y"]
    (moved,) = (t for t in report.transfers if t.full_rematerialization)
    assert (moved.value, moved.operand) == (
        "y",
        "f32[8@data,16]",
    ) and f"`y` is {moved.operand}, {moved.needed}" in moved.reason
    assert (
        flagged[0]
        .warnings[0]
        .startswith(
            "an all_gather rebuilds it whole on every device (full rematerialization): it is f32[8@data,16]"
        )
    )
    assert [n.tab for n in report.notices] == ["collectives"], "told once, of the collective"
