"""The compiler's passes: what each changed, as edits from which every module can be had again."""

import itertools
import json
import random

import numpy as np
import pytest

import xlab
from tests.observe import sample_programs as programs
from xlab import observe
from xlab.backend.profiling import HostEvent
from xlab.observe.programs.pass_times import PassPlace, timed
from xlab.observe.programs.passes import _Keeper, _Written
from xlab.observe.records import Record
from xlab.observe.records.passes import Pass, apply, line_edits, modules, passes_text


@pytest.fixture(scope="module")
def found():
    return observe.passes(xlab.jit(programs.dense).lower(*programs.sharded_operands()), all=True)


def test_passes_of_a_sharded_program(found):
    changed = [p for p in found if p.changed]
    assert [p.name for p in changed if p.stage == "shardy"] == [
        "before propagation",
        "after propagation",
        "output module",
    ]
    assert {"shardy-xla", "spmd-partitioning", "fusion-wrapper"} <= {p.name for p in changed}
    assert all(p.edits and p.diff and not p.cut for p in changed)
    partitioning = next(p for p in changed if p.name == "spmd-partitioning")
    assert partitioning.duration_us and partitioning.added == sum(
        len(new) for *_, new in partitioning.edits
    )
    assert observe.passes(xlab.jit(programs.dense).lower(*programs.sharded_operands()))[0].changed


def test_passes_that_changed_nothing_stand_where_they_ran(found):
    idle = [p for p in found if not p.changed]
    assert len(idle) > 50 and all(p.duration_us is not None for p in idle)
    stages = [p.stage for p in found]
    assert stages == sorted(stages, key=["shardy", "xla", "codegen"].index)
    names = [p.name for p in found]
    assert (
        names.index("flatten-call-graph")
        < names.index("spmd-partitioning")
        < names.index("fusion-wrapper")
    )


def test_every_module_can_be_had_again_and_the_last_is_what_runs(found):
    seen = [(p, before, after) for p, before, after in modules(found) if p.changed]
    assert all(before and after for _, before, after in seen)
    for (one, _, after), (other, before, _) in itertools.pairwise(seen):
        assert one.stage != other.stage or after == before
    optimized = (
        observe.program(xlab.jit(programs.dense).lower(*programs.sharded_operands()).compile())
        .levels[-1]
        .text
    )
    last = "\n".join(seen[-1][2])
    for word in ("all-reduce(", "fusion(", "tanh("):
        assert (word in last) == (word in optimized)
    propagated = next(after for p, _, after in seen if p.name == "after propagation")
    assert any("sdy.sharding_per_value" in line for line in propagated)


def test_lines_know_their_equation(found):
    dot = [
        line
        for p, _, after in modules(found)
        if p.name == "shardy-xla"
        for line in after
        if " dot(" in line
    ]
    assert dot and all(line.endswith("  # e0") for line in dot) and "metadata=" not in dot[0]


@pytest.mark.parametrize("seed", range(40))
def test_edits_lead_from_one_text_to_the_other(seed):
    draw = random.Random(seed)
    before = [
        draw.choice("abcdefgh") * draw.randint(0, 2) + str(draw.randint(0, 9 if seed % 2 else 900))
        for _ in range(draw.randint(0, 600))
    ]
    after = [line for line in before if draw.random() > 0.2]
    for _ in range(draw.randint(0, 60)):
        after.insert(draw.randint(0, len(after)), f"new {draw.randint(0, 50)}")
    made = line_edits(before, after)
    assert apply(before, made) == after
    assert all(list(gone) == before[at : at + len(gone)] for at, gone, _ in made)
    assert line_edits(before, before) == ()


def test_a_large_rewrite_is_compared_in_time():
    before = [f"  %v{i} = f32[{i}] add(%v{i - 1}, %w)" for i in range(30_000)]
    after = [
        line.replace("add", "multiply") if i % 3 == 0 else line for i, line in enumerate(before)
    ]
    made = line_edits(before, after)
    assert len(made) == 10_000 and apply(before, made) == after


def written(*texts):
    return iter(
        [_Written("" if n == 0 else f"p{n}", "pipe", "", text) for n, text in enumerate(texts)]
    )


def test_what_goes_beyond_the_budget_says_so():
    a, b, c, d = ([f"{word}{i}" for i in range(100)] for word in "abcd")
    one, two, three = _Keeper(1200).passes(
        "xla", written(a, [*a[:50], *b[:10], *a[60:]], [*c], [*c[:99], *d[:1]])
    )
    assert (one.added, one.removed, one.cut) == (10, 10, "") and one.before
    assert (
        two.changed
        and not two.edits
        and "characters of changes are not kept" in two.cut
        and "budget=None" in two.cut
    )
    assert three.edits == ((99, ("c99",), ("d0",)),) and three.before.startswith("c0")
    assert [(x is None, y is None) for _, x, y in modules((one, two, three))] == [
        (False, False),
        (False, True),
        (False, False),
    ]
    all_of_it = list(_Keeper(None).passes("xla", written(a, b, c)))
    assert not any(p.cut for p in all_of_it) and [p.before != "" for p in all_of_it] == [
        True,
        False,
    ]


def test_a_huge_module_keeps_only_what_changes():
    lines = [str(i) for i in range(9_000)]
    (made,) = _Keeper(None).passes("xla", written(lines, [*lines[:-1], "x"]))
    assert (
        made.cut == "the module has 9,000 lines: only those that change are kept"
        and made.edits == ((8_999, ("8999",), ("x",)),)
    )
    assert list(modules((made,))) == [(made, None, None)]


def test_text_and_wire(found):
    assert Record.from_json(json.loads(json.dumps([p.to_json() for p in found]))[0]) == found[0]
    one = Pass("dce", "xla", 1, 2, 80.0, edits=((3, ("a", "b"), ("c",)),))
    assert observe.text(one) == "dce: +1 −2 lines\n  @@ -4,2 +4,1 @@\n  -a\n  -b\n  +c"
    assert "80.0 µs" in observe.text(one, times=True) and "more line" in observe.text(one, limit=1)
    table = passes_text(found)
    assert (
        "spmd-partitioning" in table
        and "that changed nothing, or only write code" in table
        and "µs" not in table
    )


def test_a_program_for_one_device_has_no_shardy_stages():
    assert {
        p.stage
        for p in observe.passes(lambda x: xlab.lax.sin(x) * 2, np.ones(3, np.float32), all=True)
    } == {"xla", "codegen"}


def seen(*rows):
    """Events as the profiler gives them, in microseconds; a pipeline's name ends in that of its module."""
    return [HostEvent(name, "t", 1e3 * start, 1e3 * end, ()) for name, start, end in rows]


def test_a_pass_that_runs_several_times_has_the_time_of_the_run_that_changed_something():
    events = seen(
        ("tidy (m)", 0, 100),
        ("dce", 0, 10),
        ("cse", 10, 30),
        ("dce", 30, 33),
        ("tidy (m)", 100, 200),
        ("dce", 100, 140),
        ("cse", 140, 145),
        ("dce", 145, 150),
        ("all passes (m)", 0, 300),
        ("dce", 200, 207),
        ("re shape", 207, 208),
    )
    changed = Pass("dce", "xla", 1, 0, pipeline="tidy")

    def took(run, following, pipeline="tidy", name="dce"):
        found = timed(
            [changed.replace(pipeline=pipeline, name=name)],
            [PassPlace(pipeline, run, following)],
            events,
        )
        (made,) = [p for p in found if p.changed]
        assert sum(p.runs for p in found if not p.changed) == 8 - (made.duration_us is not None)
        return made.duration_us and (round(made.duration_us), made.name)

    assert took(0, "cse") == (10, "dce") and took(0, "pipeline-end") == (3, "dce")
    assert took(1, "cse") == (40, "dce") and took(1, "pipeline-end") == (5, "dce")
    assert took(0, "re_shape", "all_passes") == (7, "dce") and took(
        0, "pipeline-end", "all_passes", "re_shape"
    ) == (1, "re shape")
    assert took(2, "cse") is None and took(0, "elsewhere") is None, (
        "a run nobody saw has no time, and not that of another"
    )


def test_of_two_changes_of_one_pass_each_has_its_own_time_and_place():
    events = seen(
        ("tidy (m)", 0, 100),
        ("dce", 0, 10),
        ("cse", 10, 30),
        ("tidy (m)", 100, 200),
        ("dce", 100, 140),
        ("cse", 140, 145),
    )
    two = [Pass("dce", "xla", n, 0, pipeline="tidy") for n in (1, 2)]
    found = timed(two, [PassPlace("tidy", 0, "cse"), PassPlace("tidy", 1, "cse")], events)
    assert [(p.name, p.added, round(p.duration_us)) for p in found] == [
        ("dce", 1, 10),
        ("cse", 0, 20),
        ("dce", 2, 40),
        ("cse", 0, 5),
    ]


def test_times_are_those_of_the_compilers_own_order(found):
    changed = [
        p
        for p in found
        if p.changed
        and p.stage == "xla"
        and not p.name.startswith("before")
        and " until " not in p.name
    ]
    assert changed and all(p.duration_us is not None for p in changed)
