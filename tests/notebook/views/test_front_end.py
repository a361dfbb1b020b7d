"""The joined module runs under Node over saved payloads; where there is no Node, the reason is said."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import xlab
from tests.benchmarks.pages import gradient
from tests.notebook.views import sample
from tests.notebook.views.each import of_views
from tests.observe import sample_programs as programs
from xlab import numpy as jnp
from xlab import observe
from xlab.notebook import assets
from xlab.notebook.views import VIEWS, page, view_for
from xlab.notebook.views.page_codec import squeeze
from xlab.notebook.views.passes import passes_data
from xlab.notebook.views.program import columns
from xlab.observe import records
from xlab.observe.figures.sugiyama import sugiyama_layout
from xlab.observe.records.diff import Diff
from xlab.observe.records.ladder import Ladder
from xlab.observe.records.passes import modules
from xlab.observe.records.targets import Scheduled
from xlab.sharding import AxisType

HERE = Path(__file__).parent
F32 = records.Type("f32", (4,))
LINES = [
    f'  %v{i} = f32[{i % 7},007,{10 ** (i % 20)}] add(%v{i - 1}, −{i}.05e-{i}, ٣, "{i}")'
    if i % 3
    else f"no number: {'x' * (i % 5)}"
    for i in range(90)
]
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(
    NODE is None, reason="node is not installed; the front end is tested where it is"
)


def run_node(*arguments):
    """Run a script under Node; return what it printed, fail with what it complained about."""
    done = subprocess.run([NODE, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    path = tmp_path_factory.mktemp("js") / "views.mjs"
    path.write_text(assets.module(), encoding="utf-8")
    return path


def test_a_live_page_builds_every_tag_that_is_drawn():
    """A tag that the page does not know becomes a `span`: lists lose their indent, drawings their shapes."""
    views = Path(assets.__file__).parent / "views"
    drawn = {
        tag
        for file in views.glob("*.py")
        for tag in re.findall(r'\bh\(\s*"(\w+)"', file.read_text(encoding="utf-8"))
    }
    dom = (assets.ROOT / "kit/dom.js").read_text(encoding="utf-8")
    known = set(" ".join(re.findall(r'"([a-z0-9 ]{40,})"', dom)).split()) | {"span"}
    assert {"ol", "ellipse"} <= drawn - {"style"} <= known


@needs_node
def test_report_in_a_small_document(module, tmp_path):
    payload = tmp_path / "payload.json"
    payload.write_text(
        json.dumps(view_for(sample.report()).payload(sample.report()), allow_nan=False)
    )
    assert run_node(HERE / "report.test.mjs", module, payload).strip() == "ok"


@needs_node
def test_programs_pieces_layout_and_graph(tmp_path):
    names = "jaxprPieces, sugiyamaLayout, makeGraph, paintJaxpr, readProgram, shortHlo, shortParams, colour, swell, asker, dotOf"
    module = tmp_path / "parts.mjs"
    module.write_text(f"{assets.body()}\nexport {{ {names} }};\n", encoding="utf-8")
    graph = gradient(600)
    made = sugiyama_layout(graph["w"], graph["h"], graph["from"], graph["to"])
    plain = {
        "programs": [columns(sample.program())],
        "lines": LINES,
        "odd": [[], [[3]], ["a"] * 40, [[i, -i, 7] for i in range(40)], [[]] * 40, {}, None, 1.5],
    }
    ops = ("dot_general", "add", "tanh", "mul", "sub")
    made_of_layers = records.Program(
        "net",
        tuple(records.Variable(f"w{n}", F32) for n in range(20)),
        ("v30", *(f"v{n}" for n in range(1, 20))),
        (),
        tuple(
            records.Equation(
                n, ops[n % 5], (f"v{n}" if n else "w0", f"w{n % 20}"), (records.Variable(f"v{n + 1}", F32),)
            )
            for n in range(30)
        ),
        layer_names=("block",),
    )  # fmt: skip
    data = tmp_path / "data.json"
    data.write_text(
        json.dumps(
            {
                "layered": columns(made_of_layers),
                "graph": graph,
                "program": columns(sample.program()),
                "plain": plain,
                "squeezed": squeeze(plain),
                "expected": {
                    "x": made.x,
                    "y": made.y,
                    "links": made.links,
                    "width": made.width,
                    "lanes": [[lane.x, lane.source, lane.top] for lane in made.lanes],
                },
            }
        )
    )
    assert run_node(HERE / "program.test.mjs", module, data).strip() == "ok"


@needs_node
def test_passes_are_rebuilt_followed_and_searched(tmp_path):
    found = observe.passes(xlab.jit(programs.dense).lower(*programs.sharded_operands()), all=True)
    parts = tmp_path / "parts.mjs"
    parts.write_text(
        f"{assets.body()}\nexport {{ readPasses, moduleBefore, changedLines, aroundChanges, mountPasses, makeBus }};\n",
        encoding="utf-8",
    )
    data = tmp_path / "data.json"
    data.write_text(
        json.dumps(
            {"data": passes_data(found, 1), "modules": [before for _, before, _ in modules(found)]}
        )
    )
    assert run_node(HERE / "passes.test.mjs", parts, data).strip() == "ok"


@needs_node
def test_a_page_of_others_stands_in_a_frame_that_is_ours_and_a_drawn_view_stays():
    """No attribute of their frame, such as `onload`, comes to JupyterLab's own page."""
    script = assets.ROOT.parent / "labextension" / "outputs.js"
    assert run_node(HERE / "outputs.test.mjs", script.as_uri()).strip() == page.POLICY


@needs_node
def test_a_ladder_has_one_selection_through_all_rungs(module, tmp_path):
    made = observe.ladder(lambda x, w: jnp.sum(jnp.sin(x) @ w), jnp.ones((3, 4)), jnp.ones((4, 2)))
    payload = tmp_path / "payload.json"
    payload.write_text(json.dumps(view_for(made).payload(made), allow_nan=False))
    assert run_node(HERE / "ladder.test.mjs", module, payload).strip() == "ok"


def attention(q):
    s = jnp.where(jnp.tril(jnp.ones((3, 3), bool)), q @ q.T, -jnp.inf)
    return xlab.nn.softmax(s)


def turns(x):
    def turn(c, t):
        d = c * t
        return d, d

    return xlab.lax.scan(turn, x, jnp.arange(3.0))


def mapped(x):
    mesh = xlab.make_mesh((2,), ("i",), axis_types=(AxisType.Auto,))
    product = lambda a, b: a * b
    return xlab.shard_map(product, mesh=mesh, in_specs=xlab.P("i"), out_specs=xlab.P("i"))(x, x)


def replaced(x):
    y = x * 2
    z = y + 1
    u = x + 3
    return z, u


@needs_node
def test_values_of_a_step(module, tmp_path):
    """An infinity is no alarm, operands are tagged in loops and maps, and what a replaced value changed: see stepper.test.mjs."""
    runs = {
        "masked": (attention, np.ones((3, 2), np.float32)),
        "scan": (turns, np.float32(2)),
        "shard_map": (mapped, np.ones(4, np.float32)),
        "replaced": (replaced, np.float32(2)),
    }
    cases = {}
    for name, (f, x) in runs.items():
        trace = observe.Stepper(f, x).trace()
        made = view_for(trace).payload(trace)
        cases[name] = {k: made[k] for k in ("view", "tree", "data")}
        inside = next(
            (e for e, path in trace.program.walk() if e.primitive == "mul" and path), None
        )
        if inside is not None:
            operands = {"scan": ["c", "t"], "shard_map": ["a", "b"]}[name]
            cases[name]["data"] |= {"inside": inside.id, "operands": operands}
    payload = tmp_path / "cases.json"
    payload.write_text(json.dumps(cases, allow_nan=False))
    assert run_node(HERE / "stepper.test.mjs", module, payload).strip() == "ok"


@needs_node
@pytest.mark.parametrize("view", VIEWS, ids=lambda v: v.name)
def test_every_view_starts_and_ends(view, module, tmp_path):
    report = sample.report()
    found = {
        **of_views(report),
        Ladder: observe.ladder(jnp.sin, 1.0),
        Scheduled: sample.scheduled(),
        Diff: observe.diff((jnp.sin, 1.0), (jnp.cos, 1.0), names=("one", "<two>")),
    }
    payload = tmp_path / "payload.json"
    payload.write_text(json.dumps(view.payload(found[view.record_type]), allow_nan=False))
    script = tmp_path / "start.mjs"
    script.write_text(f"""
import {{ Element }} from {json.dumps((HERE / "dom.mjs").as_uri())};
import {{ readFileSync }} from "node:fs";
const view = (await import({json.dumps(module.as_uri())})).default;
const el = new Element("div");
const payload = JSON.parse(readFileSync({json.dumps(str(payload))}, "utf8"));
const end = view.render({{ model: {{ get: () => payload, on() {{}}, off() {{}}, send() {{}} }}, el }});
if (/failed/.test(el.textContent.replace(/failed: /g, "") ) && el.querySelectorAll(".xl-error").length) throw new Error(el.querySelector(".xl-error").textContent);
end();
console.log(el.querySelectorAll(".xl-report").length);
""")
    assert run_node(script).strip() == "0"


def test_module_is_small_and_asks_nothing_of_a_network():
    source = assets.module()
    kit = sum(p.stat().st_size for p in (assets.ROOT / "kit").glob("*.js"))
    assert kit < 40_000
    for view in (assets.ROOT / "views").glob("*.js"):
        assert view.stat().st_size < 40_000, f"{view.name} is sent to every page"
    assert not re.search(
        r"\bfetch\(|XMLHttpRequest|WebSocket|https?://(?!www\.w3\.org/2000/svg)|innerHTML|\beval\(|document\.write",
        source,
    )
    assert "url(http" not in assets.styles()
    assert "@import" not in assets.styles()


def test_a_class_is_styled_in_one_sheet():
    """The same name in two sheets is two things that look like both where a page has both."""
    where: dict[str, set[str]] = {}
    for path in assets.ROOT.glob("*/*.css"):
        sheet = re.sub(
            r"/\*.*?\*/|@[^{]*\{(?:[^{}]|\{[^{}]*\})*\}", "", path.read_text(), flags=re.DOTALL
        )
        for heads in re.findall(r"([^{}]+)\{", sheet):
            for head in heads.split(","):
                if re.fullmatch(r"\.[\w-]+", head.strip()):
                    where.setdefault(head.strip(), set()).add(path.name)
    assert {"mesh.css"} == where[".xl-axis"] and len(where) > 200
    assert {name: sheets for name, sheets in where.items() if len(sheets) > 1} == {}


def test_joining_strips_imports_and_keeps_names_unique():
    source = assets.module()
    assert not re.search(r"^import ", source, re.MULTILINE)
    assert source.count("export ") == 1
    names = re.findall(
        r"^(?:async )?(?:function|const|let|class) (\w+)", assets.body(), re.MULTILINE
    )
    top = [
        n
        for path in sorted(assets.ROOT.glob("*/*.js"))
        for n in re.findall(
            r"^(?:export )?(?:async )?(?:function|const|let) (\w+)", path.read_text(), re.MULTILINE
        )
    ]
    assert len(top) == len(set(top)), "top-level names are unique across files"
    assert set(top) <= set(names)
