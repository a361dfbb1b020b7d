"""The magics in a real IPython shell: what they leave, what they show, how they load and go away."""

from __future__ import annotations

import gc
import json
import re

import pytest

import xlab
import xlab.export
from tests.notebook.shells import loaded, run_well, shown
from xlab import observe
from xlab.notebook.magics import MAGICS
from xlab.notebook.views.program import SHARED


@pytest.fixture
def lab(shell):
    """A shell with the extension and a few arrays."""
    with loaded(shell) as made:
        yield made


@pytest.fixture
def run(lab):
    """Runs a cell that must succeed; returns what it displayed, as a list of bundles, and printed."""
    return lambda source: run_well(lab, source)


def test_load_twice_unload_and_load_again(shell):
    for _ in range(2):
        shell.run_line_magic("load_ext", "xlab")
        shell.run_line_magic("reload_ext", "xlab")
    assert "xjit" in shell.magics_manager.magics["cell"]
    shell.run_line_magic("unload_ext", "xlab")
    assert not set(MAGICS) & (
        set(shell.magics_manager.magics["cell"]) | set(shell.magics_manager.magics["line"])
    )
    assert not any(
        getattr(kind, "__module__", "").startswith("xlab")
        for form in (
            *shell.display_formatter.formatters.values(),
            shell.display_formatter.mimebundle_formatter,
        )
        for kind in form.type_printers
    )
    shell.run_line_magic("load_ext", "xlab")
    assert "xjit" in shell.magics_manager.magics["cell"]


def test_help_explains_the_options(lab):
    text = lab.magics_manager.magics["cell"]["xjit"].__doc__
    for option in (
        "--mesh",
        "--in",
        "--out",
        "--static",
        "--donate",
        "--show",
        "--hide",
        "--no-run",
        "--repeat",
        "--passes",
        "--profile",
        "--save",
        "--quiet",
    ):
        assert option in text


def test_a_cell_leaves_its_names_and_one_bundle(lab, run):
    outputs, _printed = run("%%xjit\ny = f(x, w)\nn = 3\ny.sum()")
    assert lab.user_ns["y"].shape == (8, 2) and lab.user_ns["n"] == 3
    (report,) = [o for o in outputs if "text/html" in o and "xl-saved" in o["text/html"]]
    assert set(report) >= {"text/plain", "text/html"}
    assert "tanh" in report["text/html"]
    assert "http://" not in report["text/html"].replace("http://www.w3.org", "")


def test_the_text_is_the_same_every_time(lab, run):
    def text():
        return shown(run("%%xjit\nz = f(x, w) + 1\n")[0])

    text()
    assert text() == text()


def test_the_overview_alone_has_its_amounts_in_words(lab, run):
    """Without the predicted times, which differ from machine to machine: those are in the picture."""
    text = shown(run("%%xjit --show overview\ny = f(x, w)\n")[0])
    assert re.search(r"per device: .*FLOP, .* moved, 0 B sent", text) and "memory: " in text
    assert not re.search(r"\d (ns|µs|ms|s)\b", text)


def test_a_second_run_compiles_nothing(lab, run):
    run("%%xjit\ny = f(x, w)\n")
    outputs, _ = run("%%xjit\ny = f(x, w)\n")
    assert not re.search(r"^ *(trace|lower|compile) (cell|In\[)", shown(outputs), re.MULTILINE)


def test_mesh_and_specs(lab, run):
    run(
        "%%xjit --mesh data=4,model=2 --in 'x=data,None; w=None,model' --out 'y=data,model' --quiet\ny = f(x, w)"
    )
    y = lab.user_ns["y"]
    assert len(y.sharding.device_set) == 8
    assert y.sharding.shard_shape(y.shape) == (2, 1)


def test_specs_of_parts_of_an_input(lab, run):
    """By path, with `*` for any number; what no path names stays as it is."""
    run("params = [{'w': jnp.ones((4, 2)), 'b': jnp.ones(2)} for _ in range(2)]")
    cell = "y = x @ params[0]['w'] + x @ params[1]['w'] + params[1]['b']"
    outputs, _ = run(f"%%xjit --mesh data=4,model=2 --in \"params[*]['w']=data\"\n{cell}")
    assert "params[0]['w'], params[1]['w']: f32[4@data,2]" in shown(outputs)
    assert "f32[2@" not in shown(outputs)
    with pytest.raises(ValueError, match=r"--in: no argument is 'params\[2\]'; there are params"):
        run(f"%%xjit --mesh data=4 --in params[2]=data\n{cell}")


def test_notices_lead_to_what_is_shown(lab, run):
    """Of the warnings of many collectives the last says where all are: not in a tab that the magic does not show."""
    run(
        "%xmesh data=4,model=2\nmesh = xlab.sharding.get_mesh()\n"
        "a = [xlab.device_put(jnp.ones((8 * n, 16)), NamedSharding(mesh, P('data', 'model'))) for n in range(1, 6)]\n"
        "ws = [xlab.device_put(jnp.ones((16, 4 * n)), NamedSharding(mesh, P(None, 'model'))) for n in range(1, 6)]\n"
        "many = xlab.jit(lambda a, ws: [x @ w for x, w in zip(a, ws)])"
    )
    timed = shown(run("%xtime many(a, ws)")[0])
    assert ": %xflow has them all" in timed and "see Collectives" not in timed
    assert ": see Collectives" in shown(run("%xjit many(a, ws)")[0])


def test_collectives_are_shown_with_their_line(lab, run):
    outputs, _ = run("%%xjit --mesh data=4 --in x=data\ntotal = jnp.sum(x * x)")
    assert re.search(r"all_reduce.*data.*partitioner.*2", shown(outputs))


def test_two_layouts_of_one_array(lab, run):
    run(
        "%xmesh data=4,model=2\nxs = xlab.device_put(x, NamedSharding(xlab.sharding.get_mesh(), P('data', None)))"
    )
    outputs, _ = run("%xshard xs P(None, 'model')")
    assert (
        shown(outputs).startswith("xs: f32[8@data,4] → f32[8,4@model]\n  24 messages")
        and "xl-saved" in outputs[0]["text/html"]
    )
    outputs, _ = run("%xshard P('data') P('model') --shape 8,4 --mesh data=2,model=4")
    assert "f32[8@data,4] → f32[8@model,4]" in shown(outputs)
    with pytest.raises(ValueError, match="--shape 8,4"):
        run("%xshard P('data') P('model')")


def test_show_and_hide(lab, run):
    outputs, _ = run("%%xjit --show timings\ny = f(x, w)")
    assert "Memory" not in shown(outputs) and "Phases" in shown(outputs)
    outputs, _ = run("%%xjit --hide memory\ny = f(x, w)")
    assert "Memory" not in shown(outputs)
    with pytest.raises(ValueError, match="there is no part 'everything'"):
        run("%%xjit --show everything\ny = f(x, w)")


def test_quiet_shows_nothing(lab, run):
    assert run("%%xjit --quiet\ny = f(x, w)") == ([], "")


def test_no_run_leaves_the_names(lab, run):
    run("%%xjit --no-run\nnever = f(x, w)")
    assert "never" not in lab.user_ns


def test_repeat_measures_warm_runs(lab, run):
    from xlab.notebook import recording

    run("%%xjit --repeat 5\ny = f(x, w)")
    timing = next(t for t in recording.last.timings if t.function.startswith("In["))
    assert timing.runs >= 5 and timing.warm_us is not None
    assert recording.last.costs[0].title == timing.function, "the overview finds its measured time"


def test_donated_inputs_are_gone(lab, run):
    run("%%xjit --donate x --quiet\ny = x + 1")
    assert lab.user_ns["x"].is_deleted()
    run("x, y = jnp.ones(3), 'before'")
    for again in ("--repeat 2", "--profile"):
        with pytest.raises(ValueError, match=f"{again[:6]}.*--donate has given away"):
            run(f"%%xjit --donate x {again}\ny = x + 1")
        assert not lab.user_ns["x"].is_deleted() and lab.user_ns["y"] == "before"


def test_timing_a_function_that_takes_its_argument(lab, run):
    run("taking = xlab.jit(lambda a: a + 1, donate_argnums=0)")
    for call in (
        "%xtime taking(x)",
        "%xtime taking(x) --cold",
        "%xdiff taking(x) taking(x) --repeat 2",
    ):
        assert "taking" in shown(run(call)[0])
        assert not lab.user_ns["x"].is_deleted()


def test_save_writes_a_page(lab, run, tmp_path):
    _, _printed = run(f"%%xjit --quiet --save {tmp_path}/out.html\ny = f(x, w)")
    assert "tanh" in (tmp_path / "out.html").read_text()
    run(f"%xreport {tmp_path}/again.html")
    assert (tmp_path / "again.html").stat().st_size > 1000


def test_a_call_on_a_line(lab, run):
    outputs, _ = run("result = %xjit f(x, w)")
    assert lab.user_ns["result"].shape == (8, 2)
    assert "tanh" in outputs[0]["text/html"]


def test_shard_mesh_flow(lab, run):
    outputs, _ = run("%xshard P('data', None) --shape 8,4 --mesh data=4,model=2")
    assert "f32[8@data,4] over data=4 model=2: shard f32[2,4], 2 copies" in shown(outputs)
    outputs, _ = run("%xmesh data=4,model=2")
    assert "data=4 model=2" in shown(outputs)
    run("X = xlab.device_put(x, NamedSharding(xlab.sharding.get_mesh(), P('data', None)))")
    outputs, _ = run("%xshard X")
    assert "8@data" in shown(outputs)
    outputs, _ = run("%xshard X --mesh data=8,model=32")
    assert "over data=8 model=32" in shown(outputs), "more devices than there are"
    outputs, _ = run("%xshard P('data') --shape 32,4 --mesh data=16,model=16")
    assert "shard f32[2,4], 16 copies" in shown(outputs)
    outputs, _printed = run("%xflow xlab.jit(lambda a: jnp.sum(a))(X)")
    assert "all_reduce" in shown(outputs)
    outputs, _printed = run("%xflow xlab.jit(lambda a: jnp.sum(a))(X) --better tpu:v5e")
    assert "on tpu:v5e" in shown(outputs) and "now: a P('data', None)" in shown(outputs)
    assert "placements tried" in outputs[0]["text/html"]


def test_time_hlo_ladder_ledger_mem(lab, run):
    from xlab.notebook import recording

    run("%xtime --repeat 3 f(x, w)")
    assert recording.last.timings and recording.last.programs and recording.last.opens == "timings"
    outputs, _ = run("%xhlo f(x, w) --stage optimized")
    assert "optimized" in shown(outputs)
    outputs, _ = run("%xhlo f(x, w) --passes")
    assert (
        "fusion" in shown(outputs)
        and "that changed nothing" in shown(outputs)
        and "Passes" in outputs[0]["text/html"]
    )
    outputs, _ = run("%xledger")
    assert "compile" in shown(outputs)
    outputs, _ = run("%xmem")
    assert re.search(
        r"^ *x +f32\[8,4\] +128 B +device 0 +In\[\d+\], line \d+", shown(outputs), re.MULTILINE
    )
    _, printed = run("%xmem --lines")
    assert "is recorded" in printed
    run("made_here = f(x, w)\nmade_here = made_here + 1")
    assert re.search(r"made_here.*line 2", shown(run("%xmem")[0]))
    assert "not recorded" in run("%xmem --lines off")[1]
    outputs, _ = run("%xmem f(x, w)")
    assert "peak" in shown(outputs)


def test_a_ladder_of_rungs_and_of_those_asked_for(lab, run):
    run("def loss(x, w):\n    h = f(x, w)\n    return jnp.sum(h * h)")
    outputs, _ = run("%xladder loss(x, w)")
    text = shown(outputs)
    assert text.startswith(
        "ladder of loss(x, w)   f → jvp → linearize → transpose → grad → vmap → shard_map"
    )
    assert "jvp → transpose of dot_general" in text and "data-rung" in outputs[0]["text/html"]
    outputs, _ = run("%xladder loss(x, w) --rungs 'grad, vmap(grad)'")
    assert (
        "→ vmap(grad)" in shown(outputs)
        and "batch of mul" in shown(outputs)
        and "linearize" not in shown(outputs)
    )
    outputs, _ = run("%xladder f(x, w)")
    assert "left out: grad: Gradient only defined for scalar-output functions" in shown(outputs)
    text = shown(run("%xladder loss(x, w) --rungs 'jvp, vmap' --argnums 1 --in-axes None,0")[0])
    inputs = [line for line in text.splitlines() if line.startswith("  in ")]
    assert (
        "(dw)" in inputs[1]
        and "(dx)" not in inputs[1]
        and "[2,4,2] (w)" in inputs[2]
        and "[8,4] (x)" in inputs[2]
    )
    for option, word in (
        ("--argnums 'w'", "such as 0,1"),
        ("--in-axes 0,0,0", "for each argument"),
    ):
        assert word in str(lab.run_cell(f"%xladder loss(x, w) {option}").error_in_exec)
    result = lab.run_cell("%xladder loss(x, w) --rungs hessian")
    assert "a rung is one of jvp, linearize" in str(result.error_in_exec)


def test_lines_that_cannot_be_recorded_are_not_promised(run, monkeypatch):
    monkeypatch.setattr(observe, "track_arrays", lambda on=True: False)
    assert "cannot be recorded" in run("%xmem --lines")[1]
    assert "not recorded any more" in run("%xmem --lines off")[1]


def test_the_ledger_calls_a_cell_by_its_prompt(lab, run):
    from xlab import observe

    lab.execution_count = 4
    run("n = 3")
    run("%%xjit --quiet\ny = x * n + 4\n")
    run("n = 5")
    run("%%xjit --quiet\ny = x * n + 4\n")
    first, second = observe.ledger().entries[-2:]
    assert (
        first.function == first.source.file == "In[4]"
        and "`In[4]`" in first.reason
        and "cell.py" not in str(second)
    )
    assert (
        "`n`, which went from 3 to 5" in second.reason and "n = xlab.numpy.asarray(n)" in second.fix
    )


def test_a_magic_used_twice_compiles_once(lab, run):
    from xlab import observe

    run("def once(x): return jnp.sum(x) + 7")
    for line in (
        "%xtime --repeat 2 once(x)",
        "%xtime --repeat 2 once(x)",
        "%xjit once(x)",
        "%xmem once(x)",
        "%xhlo once(x)",
    ):
        run(line)
    assert [e.function for e in observe.ledger().entries].count("once") == 1
    outputs, _ = run("%xtime --cold --repeat 2 once(x)")
    assert "compile once" in shown(outputs) and "no cold time" not in shown(outputs)
    assert [e.function for e in observe.ledger().entries].count("once") == 1, (
        "a copy was measured; the function stays compiled"
    )
    outputs, _ = run("%xtime --repeat 2 once(x)")
    assert "compile once" not in shown(
        outputs
    ) and "compiled before; %xtime --cold measures anew" in shown(outputs)


def test_a_cold_copy_keeps_options_and_arguments(lab, run):
    run("once_more = xlab.jit(lambda x, n, *, k=2: x ** n * k, static_argnames=('n', 'k'))")
    run("once_more(x, 3, k=4)")
    outputs, _ = run("%xtime --cold --repeat 2 once_more(x, 3, k=4)")
    assert "fresh copy" in shown(outputs) and "no cold time" not in shown(outputs)
    outputs, _ = run("%xtime --repeat 2 once_more(x, 3, k=4)")
    assert "no cold time: compiled before" in shown(outputs)


def test_the_phases_are_written_for_perfetto(lab, run, tmp_path):
    path = tmp_path / "trace.json"
    _, printed = run(f"%xtime --trace {path} --repeat=2 f(x, w)")
    assert str(path) in printed and json.loads(path.read_text())["traceEvents"]


def test_what_devices_did_is_written_for_perfetto_and_shared_times_are_called_estimates(
    lab, run, tmp_path
):
    path = tmp_path / "trace.json"
    outputs, _ = run(
        f"%xtime --trace {path} --profile --repeat=2 (lambda x: jnp.tanh(x * 2) + 1)(x)"
    )
    made = json.loads(path.read_text())["traceEvents"]
    rows = {(e["pid"], e["tid"]) for e in made if e.get("args") == {"name": "device 0"}}
    assert any((e["pid"], e["tid"]) in rows for e in made if e["ph"] == "X")
    assert SHARED in outputs[0]["text/html"]


def test_options_and_names_are_completed(lab):
    from IPython.core.completer import provisionalcompleter

    def offered(line):
        with provisionalcompleter():
            return [line[: c.start] + c.text for c in lab.Completer.completions(line, len(line))]

    assert "%xtime --cold" in offered("%xtime --co")
    assert "%xhlo f(x) --stage optimized" in offered("%xhlo f(x) --stage opt")
    assert "%%xjit --quiet --donate" in offered("%%xjit --quiet --do")
    lab.run_line_magic("reload_ext", "xlab")
    assert [type(m).__name__ for m in lab.Completer.custom_matchers].count("Matcher") == 1


def test_a_spec_on_more_devices_than_there_are(run):
    text = shown(run("%xshard P('data', 'model') --shape 32,32 --mesh data=16,model=16")[0])
    assert "over data=16 model=16: shard f32[2,2]" in text or "shard float32[2,2]" in text
    both = shown(run("%xshard P('data') P() --shape 32,32 --mesh data=16,model=16")[0])
    assert both.startswith("f32[32@data,32] → f32[32,32]") and "3,840 messages" in both


def test_the_partitioned_form_opens_at_its_lines():
    from xlab.notebook.views.levels import level_columns
    from xlab.observe.records import Level

    text = "module @m attributes {a = 1 : i32} {\n  func.func public @main() {\n    return\n  }\n  func.func private @f() {\n    return\n  }\n}"
    assert level_columns(Level("partitioned", text))["closed"] == [4]


def test_two_programs_side_by_side(lab, run):
    run("def g(x, w): return jnp.sin(x @ w)")
    outputs, _ = run("%xdiff f(x, w) g(x, w) --repeat 2")
    text = shown(outputs)
    assert (
        "~ d:f32[8,2] = tanh c" in text and "d:f32[8,2] = sin c" in text and "warm runs" not in text
    )
    assert re.search(r"title=.?changed\b", outputs[0]["text/html"])
    assert "median of 2 warm runs" in outputs[0]["text/html"]
    outputs, _ = run(
        "%xdiff f(x, w) --mesh data=4,model=2 --in 'x=data' --in 'x=None,data; w=data'"
    )
    assert (
        "@ in a:f32[8@data,4]" in shown(outputs)
        and "all_reduce" in shown(outputs)
        and "with x=data" in shown(outputs)
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("f(x, w)", "two calls"),
        ("f(x, w) 3", "two calls"),
        ("f(x, w) f(x, w) --in x=data", "device_put"),
        ("f(x, w) --mesh data=2 --in q=data --in x=data", "no argument"),
    ],
)
def test_what_cannot_be_compared_is_said(lab, line, words):
    result = lab.run_cell(f"%xdiff {line}")
    assert words in str(result.error_in_exec)


def test_step_records_a_run(lab, run):
    outputs, _ = run("%xstep f(x, w)")
    assert "dot_general" in shown(outputs) and "tanh" in shown(outputs)
    outputs, printed = run("%xstep f(x, w) --against f(x + 1, w)")
    assert (
        "The runs part at step 1: " in printed and "there" in printed and "tanh" in shown(outputs)
    )
    _, printed = run("%xstep f(x, w) --against f(x, w)")
    assert "The runs agree" in printed


def test_a_view_that_fails_does_not_break_the_cell(lab, run, monkeypatch):
    from xlab import observe

    def broken(*args, **options):
        raise LookupError("no report today")

    monkeypatch.setattr(observe, "report", broken)
    _, printed = run("%%xjit\ny = f(x, w)")
    assert lab.user_ns["y"].shape == (8, 2)
    assert "LookupError: no report today" in printed


def test_looking_changes_nothing(lab, run):
    run("%%xjit\ny = f(x, w)")
    from xlab.notebook import recording

    level = {p.name: p for p in recording.last.programs[0].levels}["stablehlo"].text
    plain = lab.ev("xlab.jit(lambda x, w: {'y': f(x, w)}).lower(x, w).as_text()")
    assert re.findall(r"stablehlo\.\w+", level) == re.findall(r"stablehlo\.\w+", plain)


def test_the_report_survives_json(lab, run):
    from xlab.notebook import recording
    from xlab.observe.records import Record

    run("%%xjit\ny = f(x, w)")
    assert Record.from_json(json.loads(json.dumps(recording.last.to_json()))) == recording.last


def test_the_cold_time_of_one_operation_and_no_number_of_collectives(run):
    from xlab.notebook import recording

    run("%xtime --cold --repeat 2 jnp.cos(x)")
    (timing,) = recording.last.timings
    assert timing.cold_us is not None and timing.cold_us > 0 and not timing.note
    for line in ("%xtime --repeat 2 f(x, w)", "%xmem f(x, w)", "%xhlo f(x, w) --passes"):
        outputs, _ = run(line)
        assert "0 collectives" not in shown(outputs)
    outputs, _ = run("%%xjit --show collectives\ny = x * 2")
    assert "Nothing was traced" not in json.dumps(outputs)


def test_a_cell_that_runs_again_keeps_the_number_of_its_first_run_in_the_ledger(lab, run):
    from xlab.compile.history import ledger

    source = "%%xjit\nzz = jnp.sin(x) * 3 + 1"
    lab.run_cell(source, store_history=True).raise_error()
    first = [e for e in ledger.entries if e.shown][-1]
    lab.run_cell("pass", store_history=True)
    lab.run_cell(source, store_history=True).raise_error()
    name = [e for e in observe.ledger().entries if e.function == first.shown]
    assert name and first.shown.startswith("In[")


def test_settings_caches_and_effects(lab, run):
    outputs, _ = run("%xsettings debug_")
    assert re.search(r"debug_nans +False +default", shown(outputs))
    assert "config.update" not in outputs[0]["text/html"]
    run("xlab.config.update('debug_checks', True)")
    try:
        outputs, _ = run("%xsettings --changed")
        assert re.search(r"debug_checks +True +global", shown(outputs))
        assert "debug_infs" not in shown(outputs) and "config.update" in outputs[0]["text/html"]
    finally:
        run("xlab.config.update('debug_checks', False)")
    assert "no one-operation" not in shown(run("%xcaches")[0])
    run("jnp.ones(3) + 1")
    outputs, _ = run("%xcaches")
    assert re.search(r"eager +[\d,]+ hits?, [\d,]+ miss", shown(outputs))
    assert "disk" in shown(outputs)
    outputs, _ = run("%xeffects")
    assert "no effect is waited for" in shown(outputs)


def test_a_cell_with_symbolic_shapes(lab, run):
    lab.user_ns["kept"] = xlab.export.export(xlab.jit(lambda v: v[1:] * v.shape[0]))(
        xlab.ShapeDtypeStruct(xlab.export.symbolic_shape("2*a, b"), "float32")
    )
    outputs, _ = run("%%xjit\nspec = x.shape\nq = kept.call(x)\nq.sum()")
    assert lab.user_ns["q"].shape == (7, 4)
    assert any("call_exported" in o.get("text/html", "") for o in outputs)


@pytest.mark.parametrize("magic", ["xjit", "xflow", "xtime", "xmem", "xhlo"])
def test_python_numbers_of_a_call_stay_python_numbers(lab, run, magic):
    run("def chain(x, n):\n    for _ in range(n): x = jnp.sin(x)\n    return x")
    outputs, printed = run(f"%{magic} --static n chain(x, 2)")
    assert "chain(x, 2)" in shown(outputs) + printed or outputs
    assert lab.user_ns["x"].shape == (8, 4)


def test_nothing_is_collected_while_a_page_waits_for_a_step():
    from xlab import numpy as jnp
    from xlab.notebook.magics.xstep import mover

    def chain(x):
        for _ in range(100):
            x = jnp.sin(x) * 2
        return x

    move = mover(observe.Stepper(chain, jnp.ones(4)))
    move("last", 0, -1)
    begun = []
    note = lambda phase, _info: begun.append(phase)
    limits = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(1, 1, 1)
    try:
        found = {}
        for how in ("goto", "next", "back"):
            begun.clear()
            move(how, 60, -1)
            found[how] = len(begun) // 2
    finally:
        gc.set_threshold(*limits)
        gc.callbacks.remove(note)
    # A few while it is asked, before the answer is begun.
    assert max(found.values()) < 10, found


@pytest.mark.parametrize("magic", ["xstep", "xladder", "xtime", "xhlo", "xmem", "xflow"])
def test_numbers_of_a_call_stay_numbers_where_the_function_needs_them(run, magic):
    """A number of steps, a flag: the call is shown as it would run. What can be traced is an argument as before."""
    run(
        "def turned(x, steps, train=False, rate=0.5):\n"
        "    if train:\n        x = x * rate\n"
        "    for _ in range(steps):\n        x = jnp.sin(x)\n"
        "    return x.reshape(steps, -1).sum()"
    )
    _, printed = run(f"%{magic} turned(x, 2, True)")
    assert "turned" in printed or printed == ""
    run("traced = []\ndef doubled(x, n):\n    traced.append(type(n))\n    return (x * n).sum()")
    run(f"%{magic} doubled(x, 2)\nassert int not in traced")


def test_numbers_are_no_obstacle_to_a_difference(run):
    run(
        "def powers(x, n):\n    for _ in range(n):\n        x = x * x\n    return x.sum()\n"
        "def flagged(x, n, flag):\n    return powers(x, n) if flag else x.sum()"
    )
    (output,), _ = run("%xdiff powers(x, 2) flagged(x, 3, True)")
    assert "equations" in output["text/plain"]
