"""The process in which native passes run: what it is asked, how it ends, and who notices."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.backend import toys
from tests.waiting import becomes
from xlab.backend import inlining, ir, partitioning, propagation, worker

ROOT = Path(__file__).resolve().parents[2]


def one_and_then(seconds):
    yield 1
    time.sleep(seconds)


def for_ever():
    yield 1
    pow(7, 10**10)  # native code that holds the interpreter


def ends(number):
    yield 1
    os.kill(os.getpid(), number)


def says_and_aborts():
    os.write(
        2, b"LLVM ERROR: F1122 19:12:1 7 some/file.cc:2747] Check failed: isPassthrough In op x\n"
    )
    os.abort()
    yield


def wrong():
    yield 1
    raise IndexError("of its own")


def loaded():
    from xlab.backend import client

    yield client.started(), "jax" in sys.modules, os.getcwd()


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.beside
def test_is_kept_and_has_no_client():
    assert worker.run(worker.divisors, 6) == ([1, 2, 3, 6], "")
    before = worker.process_id()
    ((started, reference, _),) = worker.run(loaded)[0]
    assert worker.process_id() == before != os.getpid() and not started and not reference


def test_large_answers_and_requests():
    (stages, why) = worker.run(
        partitioning.stages_of, toys.SHARDED_DOT + "//" + "x" * 3_000_000, False, "local"
    )
    assert not why and [name for name, _ in stages] == [
        "input",
        "propagated",
        "resharded",
        "collectives",
        "local",
    ]


@pytest.mark.parametrize(
    "number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL], ids=lambda n: n.name
)
def test_its_end_is_a_sentence_and_the_next_task_runs(number):
    assert worker.run(ends, number) == ([1], f"its process ended with {number.name}")
    assert worker.run(worker.divisors, 2) == ([1, 2], "")


def test_killed_from_outside_in_the_middle():
    worker.run(one_and_then, 0)  # it is there and knows the task
    threading.Timer(1.0, os.kill, (worker.process_id(), signal.SIGKILL)).start()
    assert worker.run(one_and_then, 30) == ([1], "its process ended with SIGKILL")
    assert worker.run(worker.divisors, 2) == ([1, 2], "")


def test_killed_between_two_tasks_nobody_notices():
    worker.run(worker.divisors, 1)
    os.kill(worker.process_id(), signal.SIGKILL)
    assert becomes(lambda: worker.process_id() is None, 5)
    assert worker.run(worker.divisors, 2) == ([1, 2], "")


def test_native_last_words():
    assert (
        worker.run(says_and_aborts)[1]
        == "its process ended with SIGABRT: Check failed: isPassthrough In op x"
    )


@pytest.mark.parametrize("task", [(one_and_then, 60), (for_ever,)], ids=["sleeps", "never_ends"])
def test_what_takes_too_long_is_ended(task):
    worker.run(one_and_then, 0)
    start, before = time.monotonic(), worker.process_id()
    assert worker.run(*task, limit=1) == ([1], "it took longer than 1 s and was ended")
    assert time.monotonic() - start < 10 and not alive(before)
    assert worker.run(worker.divisors, 2) == ([1, 2], "")


def test_its_errors_are_raised_here():
    with pytest.raises(worker.TaskError, match="IndexError: of its own"):
        worker.run(wrong)


@pytest.fixture
def interrupts():
    """The usual handler: a shell's background jobs inherit that interrupts are ignored."""
    kept = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, kept)


def test_an_interrupt_ends_the_wait_and_not_the_worker_of_the_next(interrupts):
    worker.run(worker.divisors, 1)
    before = worker.process_id()
    assert os.getpgid(before) != os.getpgid(
        0
    )  # interrupts of a terminal or kernel go to its whole group
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        worker.run(one_and_then, 30)
    assert time.monotonic() - start < 10 and not alive(before)
    assert worker.run(worker.divisors, 2) == ([1, 2], "")


def test_several_threads():
    found = {}
    threads = [
        threading.Thread(target=lambda n=n: found.setdefault(n, worker.run(worker.divisors, n)))
        for n in range(1, 9)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: ([d for d in range(1, n + 1) if n % d == 0], "") for n in range(1, 9)}


def test_where_no_process_can_be_started(monkeypatch):
    worker._end()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    pieces, why = worker.run(worker.divisors, 2)
    assert pieces == [] and "did not start" in why and "/nowhere/python" in why
    assert "did not start" in partitioning.partition_stages(toys.SHARDED_DOT)["failed"]


def test_where_the_process_cannot_begin(monkeypatch):
    worker._end()
    monkeypatch.setattr(worker, "_START", "raise ImportError('no such thing')")
    pieces, why = worker.run(worker.divisors, 2)
    assert pieces == [] and why == "its process ended with status 1: ImportError: no such thing"
    monkeypatch.undo()
    worker._end()  # the next one had begun already, and ends as the first
    assert worker.run(worker.divisors, 2) == ([1, 2], "")


def in_a_process(code, **environment):
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


def test_a_fork_has_its_own():
    ran = in_a_process("""
import os
from xlab.backend import worker
assert worker.run(worker.divisors, 4) == ([1, 2, 4], "")
mine = worker.process_id()
child = os.fork()
if not child:
    assert worker.process_id() is None and worker.run(worker.divisors, 2) == ([1, 2], "") and worker.process_id() != mine
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert worker.run(worker.divisors, 3) == ([1, 3], "") and worker.process_id() == mine
""")
    assert ran.returncode == 0 and ran.stderr == ""


@pytest.mark.parametrize(
    "end", ["", "os._exit(0)", "os.kill(os.getpid(), 9)"], ids=["returns", "leaves", "is_killed"]
)
def test_ends_with_its_owner(end):
    ran = in_a_process(f"""
import os
from xlab.backend import worker
worker.run(worker.divisors, 4)
print(worker.process_id(), flush=True)
{end}
""")
    assert ran.stderr == ""
    assert becomes(lambda: not alive(int(ran.stdout)), 5)


def test_a_task_without_an_owner_ends_too():
    ran = in_a_process("""
import os, threading
from tests.backend.test_worker import for_ever
from xlab.backend import worker
worker.run(worker.divisors, 4)
print(worker.process_id(), flush=True)
threading.Timer(0.3, os._exit, (0,)).start()
worker.run(for_ever, limit=0.5)
""")
    assert becomes(lambda: not alive(int(ran.stdout)), 8)


def test_files_of_the_callers_folder_are_not_taken_for_modules(tmp_path):
    (tmp_path / "socket.py").write_text("raise SystemExit('not this one')")
    ran = in_a_process(f"""
import os
from xlab.backend import worker
os.chdir({str(tmp_path)!r})
assert worker.run(worker.divisors, 4) == ([1, 2, 4], "")
""")
    assert ran.returncode == 0, ran.stderr


# -------------------------------------------------------------------------------------------------------- its tasks


def test_a_stage_that_ends_the_process_leaves_those_before_it():
    text = """module @m { sdy.mesh @mesh = <["d"=8]>
      func.func public @main(%a: tensor<32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}]>}) -> tensor<32xf32> {
        %z = stablehlo.constant dense<0.0> : tensor<f32>
        %0 = "stablehlo.reduce_window"(%a, %z) <{padding = dense<[[31, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: 32>}> ({
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %s = stablehlo.add %x, %y : tensor<f32>
          stablehlo.return %s : tensor<f32> }) : (tensor<32xf32>, tensor<f32>) -> tensor<32xf32>
        return %0 : tensor<32xf32> } }"""
    stages = partitioning.partition_stages(text)
    assert list(stages) == ["input", "propagated", "resharded", "collectives", "failed"]
    assert stages["failed"].startswith(
        "local: its process ended with SIGABRT: Check failed: isPassthrough"
    )
    assert list(partitioning.partition_stages(text, last="resharded")) == [
        "input",
        "propagated",
        "resharded",
    ]


def test_an_error_of_a_pass_is_a_sentence(monkeypatch):
    monkeypatch.setattr(ir, "apply_passes", lambda *args, **kwargs: ir._made_up())
    with pytest.raises(AttributeError):  # what is not the pass's own error is ours
        list(partitioning.stages_of(toys.SHARDED_DOT, False, "local"))
    monkeypatch.setattr(ir, "apply_passes", lambda module, passes, **kwargs: ir.parse("nonsense"))
    assert [name for name, _ in partitioning.stages_of(toys.SHARDED_DOT, False, "local")] == [
        "input",
        "failed",
    ]


def test_values_nobody_reads_end_no_propagation():
    text = """module @m { sdy.mesh @mesh = <["d"=8]>
      func.func public @main(%a: tensor<32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}]>}) -> tensor<32xf32> {
        %0 = stablehlo.negate %a : tensor<32xf32>
        %1 = stablehlo.constant dense<0.0> : tensor<f32>
        %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [0] : (tensor<32xf32>, tensor<f32>) -> tensor<f32>
        %3 = stablehlo.constant dense<1.0> : tensor<32xf32>
        return %3 : tensor<32xf32> } }"""
    before = worker.process_id()
    found = propagation.propagation(text)
    assert found.failed == "" and len(found.arguments) == 1
    assert before is None or worker.process_id() == before


def test_functions_that_are_named_otherwise_are_not_inlined_away():
    module = ir.parse("""module @m {
      func.func public @main(%a: tensor<f32>) -> tensor<f32> {
        %0 = stablehlo.composite "my.neg" %a {decomposition = @neg} : (tensor<f32>) -> tensor<f32>
        %1 = func.call @twice(%0) : (tensor<f32>) -> tensor<f32>
        return %1 : tensor<f32> }
      func.func private @neg(%a: tensor<f32>) -> tensor<f32> { %0 = stablehlo.negate %a : tensor<f32> return %0 : tensor<f32> }
      func.func private @twice(%a: tensor<f32>) -> tensor<f32> { %0 = stablehlo.add %a, %a : tensor<f32> return %0 : tensor<f32> } }""")
    with ir.context():
        inlining.inline_calls(module)
    ir.verify(module)
    text = ir.print_module(module)
    assert "@neg(" in text and "@twice" not in text and "stablehlo.add" in text
