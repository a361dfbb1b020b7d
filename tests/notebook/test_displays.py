"""What values show of themselves in a shell: forms for every host, escaped, drawn once."""

from __future__ import annotations

import html

import pytest

from tests.notebook.shells import loaded, run_well, shown


@pytest.fixture
def lab(shell):
    """A shell with the extension and a few arrays."""
    with loaded(shell) as made:
        yield made


@pytest.fixture
def run(lab):
    """Runs a cell that must succeed; returns what it displayed, as a list of bundles, and printed."""
    return lambda source: run_well(lab, source)


def test_objects_display_themselves(lab, run):
    def form(source):
        data, _ = lab.display_formatter.format(lab.ev(source))
        return data

    run(
        "mesh = xlab.make_mesh((4, 2), ('data', 'model'), axis_types=(xlab.sharding.AxisType.Auto,) * 2)"
    )
    jaxpr = form("xlab.make_jaxpr(f)(x, w)")
    assert "tanh" in jaxpr["text/plain"] and "tanh" in jaxpr["text/html"]
    assert "<svg" in form("mesh")["text/html"]
    placed = form("NamedSharding(mesh, P('data', None))")
    assert all("P('data', None)" in html.unescape(placed[k]) for k in ("text/html", "text/plain"))
    array = form("xlab.device_put(x, NamedSharding(mesh, P('data')))")["text/html"]
    assert "8@data" in array and "<svg" in array and "<details" in array
    assert "<pre" not in array.split("<details")[0] and "<code" not in array.split("<details")[0]
    assert not {"text/html", "image/svg+xml"} & set(form("x"))
    for value in (
        "mesh",
        "NamedSharding(mesh, P('data'))",
        "xlab.device_put(x, NamedSharding(mesh, P('data')))",
    ):
        assert form(value)["image/svg+xml"].startswith("<svg")
    for stage in (
        "xlab.jit(f).trace(x, w)",
        "xlab.jit(f).lower(x, w)",
        "xlab.jit(f).lower(x, w).compile()",
    ):
        assert "tanh" in form(stage)["text/html"]
    assert all(
        form(source)["text/plain"] == form(source)["text/plain"]
        for source in ("mesh", "xlab.make_jaxpr(f)(x, w)")
    )


def test_an_object_is_drawn_once_for_all_its_forms(lab, run, monkeypatch):
    from xlab.notebook.views.layout import LayoutView
    from xlab.notebook.views.mesh import MeshView

    drawn = []
    for view in (LayoutView, MeshView):
        monkeypatch.setattr(
            view,
            "tree",
            lambda self, record, tree=view.tree: drawn.append(type(record)) or tree(self, record),
        )
    run("mesh = xlab.make_mesh((4, 2), ('data', 'model'))")
    for value in (
        "mesh",
        "NamedSharding(mesh, P('data'))",
        "xlab.device_put(x, NamedSharding(mesh, P('data')))",
    ):
        data, _ = lab.display_formatter.format(lab.ev(value))
        assert {"text/plain", "text/html", "image/svg+xml"} <= set(data)
        assert len(drawn) == 1, drawn
        drawn.clear()


def test_names_of_the_page_are_escaped(lab, run):
    outputs, _ = run("%%xjit\nnote = '</script><script>alert(1)</script>'\ny = f(x, w)")
    assert "<script>alert" not in outputs[0]["text/html"]


VSCODE = {"cellId": "vscode-notebook-cell:/home/me/a.ipynb#W0sZmlsZQ=="}


@pytest.mark.parametrize(
    ("metadata", "asked", "live", "widget"),
    [({"cellId": "a"}, "", True, False), (VSCODE, "0", True, False), ({"cellId": "a"}, "1", True, True), ({}, "1", False, False)],
)  # fmt: skip
def test_only_who_asks_is_given_a_widget(metadata, asked, live, widget, monkeypatch):
    """A front end without the extension would show an error in place of a widget once the kernel is gone, and nbconvert at once."""
    pytest.importorskip("anywidget")
    from types import SimpleNamespace

    from xlab.notebook import formatters
    from xlab.notebook.views import view_for
    from xlab.observe.records import MeshInfo

    monkeypatch.setenv("XLAB_WIDGETS", asked)
    mesh = MeshInfo(("data",), (2,), (0, 1))
    shell = SimpleNamespace(
        kernel=object(), get_parent=lambda: {"metadata": metadata}, execution_count=1
    )
    data, _ = formatters.bundle(view_for(mesh), mesh, shell, None)
    assert {"text/plain", "text/html"} <= set(data)
    assert ("application/vnd.xlab.view+json" in data) == live
    assert ("application/vnd.jupyter.widget-view+json" in data) == widget


def test_a_pytree_is_drawn_as_a_tree(run):
    outputs, _ = run("params = {'layers': [{'w': w}, {'w': w}], 'b': x}\n%xshard params")
    assert shown(outputs).startswith("params: 3 leaves")
    assert "[0] … [1]  ×2" in shown(outputs) and "<iframe" not in outputs[0]["text/html"]


def test_an_abstract_mesh_and_a_sharding_over_it_are_drawn(lab):
    """A cell that ends with one, although there are no devices."""
    from xlab.notebook import formatters
    from xlab.sharding import AbstractMesh, NamedSharding
    from xlab.sharding import PartitionSpec as P

    mesh = AbstractMesh((40, 25), ("data", "model"))
    for value in (mesh, NamedSharding(mesh, P("data"))):
        data, _ = lab.display_formatter.format(value)
        assert "<svg" in data["text/html"], value
    assert "1,000 abstract devices" in str(formatters.record_of(mesh))


def test_an_error_about_devices_draws_them(lab, run):
    from xlab.notebook.tracebacks import failure
    from xlab.notebook.views.draw import html
    from xlab.notebook.views.report import failure_node

    run("d = xlab.devices()")
    result = lab.run_cell("xlab.device_put(w, d[1]) + xlab.device_put(w, d[2])")
    card = html(failure_node(failure(result.error_in_exec)))
    assert card.count("xl-strip n") == 2 and "not one of its devices" in card
