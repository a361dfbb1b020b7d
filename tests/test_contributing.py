"""What `.github/CONTRIBUTING.md` and the rooms' docstrings say is so: recipes run, lists of files are whole."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import xlab
from tests.test_layers import FLOORS
from xlab import P

ROOT = Path(__file__).resolve().parents[1]
CONTRIBUTING = (ROOT / ".github" / "CONTRIBUTING.md").read_text()
FACADES = {"xlab", "xlab/experimental"}


def recipe(name: str, language: str = "python") -> list[str]:
    """The blocks of code of a recipe."""
    section = CONTRIBUTING.split(f"## Recipe: {name}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.S)


def run(name: str) -> dict:
    names: dict = {"__name__": "recipe"}
    for block in recipe(name):
        exec(compile(block, "<recipe>", "exec"), names)
    return names


def test_the_rooms_are_those_of_the_layers():
    table = CONTRIBUTING.split("## The rooms\n")[1].split("\n\nTen minutes")[0]
    named = {
        room
        for line in table.splitlines()
        if line.startswith("| `")
        for room in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert named == {
        room
        for floor in FLOORS
        for room in floor
        if (ROOT / "xlab" / room).exists() or (ROOT / "xlab" / f"{room}.py").exists()
    }


def test_rooms_name_all_their_files():
    faults = []
    for init in sorted((ROOT / "xlab").rglob("__init__.py")):
        room = init.parent
        if str(room.relative_to(ROOT)) in FACADES:
            continue
        words = set(re.findall(r"\w+", ast.get_docstring(ast.parse(init.read_text())) or ""))
        files = [p.stem for p in room.glob("*.py") if p != init] + [
            p.parent.name for p in room.glob("*/__init__.py")
        ]
        faults += [
            f"{room.relative_to(ROOT)} does not name {name}"
            for name in sorted(files)
            if name not in words
        ]
    assert not faults, "\n".join(faults)


def test_links_lead_somewhere():
    titles = {
        re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")
        for title in re.findall(r"^## (.*)$", CONTRIBUTING, re.M)
    }
    assert set(re.findall(r"\]\(#([\w-]+)\)", CONTRIBUTING)) <= titles


def test_files_that_are_named_are_there():
    made_here = {
        "observe/records/dtypes.py",
        "notebook/views/dtypes.py",
        "notebook/js/views/dtypes.js",
    }
    named = set(re.findall(r"`((?:\w+/)+\w+\.(?:py|js|css))`", CONTRIBUTING)) - made_here
    assert not [
        path
        for path in sorted(named)
        if not (ROOT / "xlab" / path).exists() and not (ROOT / path).exists()
    ]


def test_a_primitive():
    softsign = run("a primitive")["softsign"]
    x = np.float32([-2, -0.5, 0, 3])
    for f in (softsign, xlab.jit(softsign), xlab.vmap(softsign)):
        np.testing.assert_allclose(f(x), x / (1 + abs(x)), rtol=1e-6)
    slope = xlab.vmap(xlab.grad(softsign))(x)
    np.testing.assert_allclose(slope, 1 / (1 + abs(x)) ** 2, rtol=1e-6)
    with pytest.raises(TypeError, match="floating"):
        softsign(np.int32(1))


def test_a_magic(shell, tmp_path, monkeypatch, capsys):
    from xlab.notebook import magics

    (tmp_path / "xcount.py").write_text(recipe("a magic")[0])
    monkeypatch.setattr(magics, "__path__", [*magics.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "xlab.notebook.magics.xcount", raising=False)
    shell.run_line_magic("load_ext", "xlab")
    shell.magics_manager.register_function(
        magics.Magic("xcount", shell), magic_kind="line", magic_name="xcount"
    )
    shell.run_cell(
        "import xlab.numpy as jnp\nf = lambda x: jnp.sin(jnp.sin(x)) * x\nx = jnp.ones(3)"
    )
    capsys.readouterr()
    shell.run_cell("%xcount --least 2 f(x)")
    shell.run_cell("%xcount f(x)")
    assert re.sub(" +", " ", capsys.readouterr().out).split("\n")[:3] == [
        " 2 sin",
        " 2 sin",
        " 1 mul",
    ]
    assert "--least 2" in shell.find_line_magic("xcount").__doc__
    assert "did you mean --least" in str(shell.run_cell("%xcount f(x) --leats 2").error_in_exec)


def test_a_collective():
    pshift = run("a collective")["pshift"]
    x = np.arange(8, dtype=np.float32)
    mesh = xlab.make_mesh((8,), ("i",), axis_types=(xlab.sharding.AxisType.Auto,))
    shifted = xlab.jit(
        xlab.shard_map(lambda v: pshift(v, "i", 3), mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    )
    np.testing.assert_array_equal(shifted(x), np.roll(x, 3))
    np.testing.assert_array_equal(
        xlab.vmap(lambda v: pshift(v, "i", 3), axis_name="i")(x), np.roll(x, 3)
    )
    np.testing.assert_array_equal(xlab.grad(lambda v: (shifted(v) * x).sum())(x), np.roll(x, -3))
    (sent,) = xlab.observe.transfers(shifted, x)
    assert (sent.kind, sent.sent, sent.origin) == ("collective_permute", 4, "user") and (
        0,
        3,
    ) in sent.pairs
    with pytest.raises(NameError, match="unbound axis name"):
        pshift(x, "j")


def test_a_view(tmp_path, monkeypatch):
    from tests.notebook.views import sample
    from xlab.notebook import assets, views
    from xlab.notebook.export import write_html
    from xlab.notebook.views.tabs import remove_tab
    from xlab.observe import records

    record, view = recipe("a view")
    for package, name, text in (
        (records, "dtypes.py", record),
        (views, "dtypes.py", view),
        (views, "dtypes.js", *recipe("a view", "js")),
    ):
        folder = tmp_path / package.__name__
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text)
        monkeypatch.setattr(
            package,
            "__path__",
            [*package.__path__, str(folder)]
            if str(folder) not in package.__path__
            else package.__path__,
        )
    try:
        made = importlib.import_module("xlab.notebook.views.dtypes")
        found = made.dtypes(sample.report())
        assert (
            found.rows
            and f"{found.rows[0][1]:,} B" in repr(found)
            and records.Record.from_json(found.to_json()) == found
        )
        page = Path(write_html(sample.report(), tmp_path / "out.html")).read_text()
        assert (
            re.search(r"data-tab=[\"']dtypes", page)
            and f"{found.rows[0][0]}: {found.rows[0][1]:,} B" in page
        )
        assert "B together" in assets.module()
    finally:
        views.VIEWS[:] = [view for view in views.VIEWS if view.name != "dtypes"]
        remove_tab("dtypes")
        assets.remove("dtypes")
        records.base._classes.pop("Dtypes", None)
        for name in ("xlab.notebook.views.dtypes", "xlab.observe.records.dtypes"):
            sys.modules.pop(name, None)
        vars(views).pop("dtypes", None), vars(records).pop("dtypes", None)
