"""Reports of two real processes, one of them late, joined: one run for all tests, and the same records with what may be wrong with them."""

from __future__ import annotations

import json

import pytest

from tests.parallel.workers import start_two
from xlab import observe
from xlab.notebook import report_command
from xlab.observe.records import Record, Report
from xlab.observe.records.processes import late, late_sentence, launched
from xlab.observe.records.text import text

LATE_US = 50_000
RUNS = 5
WORKER = """
    import json, sys, time
    import numpy as np
    import xlab
    from xlab import lax, observe
    from xlab.sharding import NamedSharding, P
    xlab.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
    me = xlab.process_index()
    mesh = xlab.make_mesh((4,), ("x",))
    x = xlab.make_array_from_callback((8,), NamedSharding(mesh, P("x")), lambda at: np.arange(8, dtype=np.float32)[at])
    @xlab.jit
    def step(v):
        total = lambda v: lax.psum(v * 2, "x")
        return xlab.shard_map(total, mesh=mesh, in_specs=P("x"), out_specs=P())(v)
    step(x).block_until_ready()
    with observe.record() as session, observe.profiled(session):
        for _ in range(RUNS):
            if me: time.sleep(LATE_S)
            step(x).block_until_ready()
    with open(f"{sys.argv[3]}/report.{me}.json", "w") as file:
        json.dump(observe.report(session, title="step").to_json(), file)
""".replace("RUNS", str(RUNS)).replace("LATE_S", str(LATE_US / 1e6))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    for code, words in start_two(WORKER, str(folder)):
        assert code == 0, words[-4000:]
    return [str(folder / f"report.{k}.json") for k in range(2)]


@pytest.fixture
def reports(files):
    made = []
    for name in files:
        with open(name) as file:
            made.append(Record.from_json(json.load(file)))
    return made


def with_info(report: Report, **changes) -> Report:
    part = report.processes
    return report.replace(processes=part.replace(members=(part.members[0].replace(**changes),)))


def test_each_process_has_its_own_part(reports):
    for k, report in enumerate(reports):
        (info,) = report.processes.members
        assert (report.processes.count, info.index, len(info.devices)) == (2, k, 2)
        assert info.resident > 1 << 20 and info.live_bytes >= 16 and info.pid > 0
        assert [x.number for x in report.processes.launches] == [*range(RUNS)]
        (sums,) = report.processes.attendance
        assert len(sums.members) == 4 and len(sums.times) == RUNS
        assert not list(sums.meetings()), "the others are not known yet"
        # One process cannot know what it waited for the other.
        assert [t.wait_us for t in report.transfers] == [None]


def test_who_is_late_and_who_waited_how_long(reports):
    whole = observe.merge(reversed(reports)).processes
    assert [m.index for m in whole.members] == [0, 1]
    (found,) = late(whole)
    assert (found.process, found.what, found.program) == (1, "psum", 0)
    assert 2 * found.times > found.runs == RUNS
    # Process 1 sleeps before each step: what the other waits is that, and what a loaded machine adds.
    assert found.wait_us > 0.8 * LATE_US and found.wait_us <= found.of_us
    said = late_sentence(found, 2)
    assert said.startswith("process 1 is late: the other one waited") and "in `psum` (line " in said
    (sums,) = whole.attendance
    for met in sums.meetings():
        assert {m[0] for m in met} == {0, 1} and min(m[2] for m in met) >= 0
        # All on one clock: nobody goes before the last has come.
        assert max(m[2] for m in met) <= min(m[3] for m in met)


def test_a_collective_says_what_each_device_waited(reports):
    (transfer,) = observe.merge(reports).transfers
    waited = {device: wait for _, device, wait, _ in transfer.arrivals}
    by_process = {k: [w for p, _, w, _ in transfer.arrivals if p == k] for k in (0, 1)}
    assert set(waited) == {d for g in transfer.groups for d in g}
    assert min(by_process[0]) > 0.5 * LATE_US > max(by_process[1])
    assert transfer.wait_us == max(waited.values()) <= transfer.measured_us


def test_lanes_and_launches_are_on_one_clock(reports):
    """Whose recording began later, all of it stands later: phases as well as the programs that they are parts of."""
    apart = reports[1].processes.members[0].begun_us - reports[0].processes.members[0].begun_us
    whole = observe.merge(reports).processes
    for k, report in enumerate(reports):
        (info,) = report.processes.members
        moved = max(0.0, apart if k else -apart)
        phases, launches = whole.members[k].phases, [x for x in whole.launches if x.process == k]
        assert info.phases and len(phases) == len(info.phases)
        for now, then in zip(phases, info.phases, strict=True):
            assert now.start_us == pytest.approx(then.start_us + moved, abs=0.01)
        for now, then in zip(launches, report.processes.launches, strict=True):
            assert now.begun_us == pytest.approx(then.begun_us + moved, abs=0.01)


@pytest.mark.parametrize("shift", [3e6, -3e6])
def test_the_clock_of_another_machine_is_found(reports, shift):
    alike = observe.merge(reports).processes
    begun = reports[1].processes.members[0].begun_us + shift
    other = with_info(reports[1], host="elsewhere", begun_us=begun)
    whole = observe.merge([reports[0], other]).processes
    info = whole.members[1]
    assert abs(info.clock_offset_us + shift) <= info.clock_error_us < LATE_US
    assert late(whole)[0].process == 1
    assert abs(late(whole)[0].wait_us - late(alike)[0].wait_us) <= 2 * info.clock_error_us


def test_one_meeting_that_a_process_left_late_does_not_move_its_clock(reports):
    alike = observe.merge([reports[0], with_info(reports[1], host="elsewhere")]).processes.members[
        1
    ]
    part = reports[1].processes
    (sums,) = part.attendance
    # The shortest of all meetings, in which process 1 came last and could not leave for 20 ms.
    short = tuple((p, d, went - 1, went + 20_000 * (p == 1)) for p, d, _, went in sums.times[0])
    part = part.replace(attendance=(sums.replace(times=(short, *sums.times[1:])),))
    kept = with_info(reports[1].replace(processes=part), host="elsewhere")
    info = observe.merge([reports[0], kept]).processes.members[1]
    assert abs(info.clock_offset_us - alike.clock_offset_us) < 10_000


def test_who_is_kept_from_leaving_every_time_is_within_the_error(reports):
    """Process 1 comes last to each meeting, and a busy machine lets it go some milliseconds later than the other."""
    base = reports[0].processes.members[0].begun_us
    kept = (3000.0, 3500.0, 3600.0, 3900.0, 4000.0)
    sides = []
    for k, report in enumerate(reports):
        (sums,) = report.processes.attendance
        times = tuple(
            tuple(
                (p, d, 1e5 * n + 50_000 * k, 1e5 * n + 50_000 + k * late)
                for p, d, *_ in sums.times[n]
            )
            for n, late in enumerate(kept)
        )
        part = report.processes.replace(attendance=(sums.replace(times=times),))
        sides.append(with_info(report.replace(processes=part), begun_us=base))
    sides[1] = with_info(sides[1], host="elsewhere")
    info = observe.merge(sides).processes.members[1]
    assert abs(info.clock_offset_us) <= info.clock_error_us < 5000


def test_a_clock_that_nothing_tells_of_is_said(reports):
    bare = [r.replace(processes=r.processes.replace(attendance=())) for r in reports]
    other = with_info(bare[1], host="elsewhere")
    (notice,) = observe.merge([bare[0], other]).notices
    assert "the clock of process 1, on elsewhere, is not known" in notice.text
    # On one machine the starts of programs say who is late.
    found = late(observe.merge(bare).processes)
    assert not found or (
        (found[0].process, found[0].program) == (1, -1)
        and "at the start of `step`" in late_sentence(found[0])
    )


def test_what_differs_is_said(reports):
    first, second = reports
    part = second.processes

    def told(report):
        return [n.text for n in observe.merge([first, report]).notices if n not in first.notices]

    assert told(second) == []
    renamed = second.programs[0].replace(name="other")
    assert told(second.replace(programs=(renamed,))) == ["process 1 has another program here"]
    assert told(second.replace(transfers=())) == ["process 1 has other collectives here"]
    (said,) = told(second.replace(versions=(("python", "2.7"),)))
    assert "other versions: python" in said
    launches = tuple(
        x.replace(program="max", fingerprint="ff") if x.number >= 2 else x for x in part.launches
    )
    apart = second.replace(processes=part.replace(launches=launches))
    assert told(apart) == [
        "the processes are apart from their program number 2 on: process 0 starts `step`; process 1 starts `max`"
    ]
    assert len(launched(observe.merge([first, apart]).processes)) == 2
    (sums,) = part.attendance
    fewer = part.replace(attendance=(sums.replace(times=sums.times[1:]),))
    assert "`psum` was measured 4 times in one process and 5 times in another" in told(second.replace(processes=fewer))[0]  # fmt: skip
    only = [r.replace(processes=r.processes.replace(count=3)) for r in reports]
    assert "there is no report of process 2 of 3" in [n.text for n in observe.merge(only).notices]


def test_what_cannot_be_merged(reports):
    for given, words in (
        ([], "none were given"),
        ([Report("alone")], "'alone' was made by a process that works alone"),
        ([reports[0], reports[0]], "two reports are of process 0"),
        ([3], "given a int"),
    ):
        with pytest.raises(ValueError, match=words):
            observe.merge(given)


def test_a_trace_with_a_track_per_process(reports):
    events = observe.chrome_trace(observe.merge(reports))["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert [names[k][:9] for k in (1, 2)] == ["process 0", "process 1"]
    waiting = [e for e in events if e["name"] == "psum, waiting" and e["dur"] > 0.5 * LATE_US]
    pids = [e["pid"] for e in waiting]
    assert pids.count(1) > pids.count(2), (
        "process 0 waits; process 1 at most where its own profile began"
    )
    arrows = [e for e in events if e["ph"] in "sf"]
    begun, ended = ({e["id"]: e["pid"] for e in arrows if e["ph"] == ph} for ph in "sf")
    assert begun.keys() == ended.keys() and all(begun[k] != ended[k] for k in begun)
    assert 2 * [*begun.values()].count(2) > len(begun)
    assert {e["pid"] for e in events if e.get("cat") == "launch"} == {1, 2}


def test_the_command_joins_files(files, tmp_path, capsys):
    page, records = tmp_path / "page.html", tmp_path / "all.json"
    assert report_command.main(["--merge", *files, "-o", str(page), "--json", str(records)]) == 0
    said = capsys.readouterr().out
    assert "process 1 is late" in said and "2 processes with 4 devices on 1 host" in said
    whole = Record.from_json(json.loads(records.read_text()))
    assert len(whole.processes.members) == 2 and "process 1 is late" in text(whole, times=True)
    assert "Processes" in page.read_text()
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    for given, words in (
        ([str(broken)], "has no records of a report"),
        ([str(tmp_path / "none.json")], "cannot be read"),
        ([files[0], files[0]], "two reports are of process 0"),
    ):
        assert report_command.main(["--merge", *given, "-o", str(page)]) == 2
        assert words in capsys.readouterr().err
