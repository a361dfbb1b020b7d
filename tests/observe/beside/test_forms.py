"""Every view and every magic of every form of a program of JAX's; `forms.py` says what is done, in a process of its own."""

from __future__ import annotations

import pytest

from tests.observe.beside.running import found_in

pytestmark = pytest.mark.reference
TRACED = "traced and compiled by jax 0.10.2"
EQUAL = "the results equal those of jax 0.10.2 bit for bit"
LATER = "lowered and compiled by jax 0.10.2, which keeps no equations of it"
STEPPED = ", stepped by the rules of xlab"
FORMS = ("function", "jit", "traced", "lowered", "compiled", "jaxpr", "open jaxpr")
VIEWS = ("program", "transfers", "memory", "cost", "findings", "passes", "nan_path", "trace", "series", "profile", "timeline", "time", "ladder", "diff")  # fmt: skip
LATE = ("lowered", "compiled", "low", "comp")


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    return found_in("forms", tmp_path_factory.mktemp("forms"))


def by(form):
    return LATER if form in LATE else TRACED


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("view", VIEWS)
def test_each_view_of_each_form_says_who_traced_and_who_compiled(seen, view, form):
    text = seen["views"][f"{view} of {form}"]
    if (view, form) == ("passes", "compiled"):
        assert "TypeError: total is a Compiled of JAX's, which keeps no module" in text
        return
    if view == "ladder":
        whole = "left out: vmap: total is a primitive of JAX's alone"
        assert "traced by jax 0.10.2, transformed by the rules of xlab" in text
        assert (whole in text) == (form in LATE)
        return
    if view == "diff" and form in LATE:
        assert text.split("\n")[0] == f"left {LATER}, right {TRACED}"
        return
    more = STEPPED if view in ("nan_path", "trace", "series") else ""
    more = ", a second time for these passes" if view == "passes" else more
    assert [line.strip() for line in text.split("\n")].count(by(form) + more) == 1, text[:300]
    assert text.count("by jax 0.10.2") == 1


def test_no_view_is_left_out(seen):
    assert set(seen["views"]) == {f"{view} of {form}" for view in VIEWS for form in FORMS}


def test_figures_are_the_same_of_every_form(seen):
    found = seen["alike"]
    assert found["function"][0] == ["all_reduce"] and found["function"][4] == 8
    assert "all-reduce" in found["function"][3] and found["function"][1] > 0
    for form, figures in found.items():
        assert figures == found["function"], form


def test_what_is_measured_of_a_stage_without_arguments_runs_on_ones(seen):
    assert seen["without_arguments"] == {
        form: [True, 2] for form in ("traced", "lowered", "compiled", "jaxpr")
    }


def test_stages_are_compared_alone_and_with_arguments_timed(seen):
    d = seen["diffs"]
    assert d["timed"] == ["median of 2 warm runs"]
    assert d["alone"] == f"left {TRACED}, right {LATER}"
    assert d["two"] == f"low {LATER}, f {TRACED}"


def test_pages_say_it_once(seen):
    assert seen["pages"] == {name: [True, 0] for name in ("memory", "cost", "trace", "timeline", "diff", "program", "ladder")}  # fmt: skip


def test_the_tree_of_calls_is_the_users(seen):
    assert seen["calls"] == [["step", 0], ["update", 1], ["a lambda ×4", 2], ["layer", 3]]


def test_of_nothing_it_is_said_too(seen):
    e = seen["empty"]
    assert e["transfers"] == [f"{TRACED}\nnothing recorded", f"{TRACED}\n()"]
    assert e["findings"] == f"{TRACED}\nno findings"
    assert e["ours"] == ["", "no findings"]


@pytest.mark.parametrize("name", ["one", "two", "tangents", "in another"])
def test_loops_that_end_at_another_turn_for_each_example(seen, name):
    said, masked, linked = seen["examples"][name]
    assert said.endswith(EQUAL) and masked and linked


@pytest.mark.parametrize(
    ("name", "moves"),
    [("pmap", ["all_reduce"]), ("pmap static", []), ("shard_map", ["all_reduce"])],
)
def test_what_is_mapped_over_devices(seen, name, moves):
    by, said, transfers, inside, runs = seen["mapped"][name]
    assert by == TRACED and said.endswith(EQUAL)
    assert transfers == moves and inside and runs == 2


def test_records_are_made_once(seen):
    assert seen["kept"] == [True, True, 1]


def test_functions_made_by_jaxs_own_are_jaxs(seen):
    o = seen["owners"]
    assert all(found == ["jax"] for found in o["packages"].values()), o["packages"]
    assert o["looked at"] == [TRACED] * 5
    assert o["mixed"] == ["jax", "xlab"]  # what JAX's function holds is looked at


@pytest.mark.parametrize("name", ["lstm", "hmc", "chains", "nuts", "constrained", "abstract", "over abstract"])  # fmt: skip
def test_bodies_have_the_users_lines(seen, name):
    found = seen["bodies"][name]
    total = sum(found["files"].values())
    assert total >= 18 and found["files"].get("forms.py", 0) > 0.9 * total, found["files"]
    assert found["opaque"] == []
    assert "stepped to the end: the results" in found["stepped"] and "DIFFER" not in found["stepped"]  # fmt: skip


def test_lines_of_bodies_are_those_of_the_bodies(seen):
    lines = {name: set(found["lines"]) for name, found in seen["bodies"].items()}
    cell = {"gates = x @ params[\"wx\"] + h @ params[\"wh\"] + params[\"b\"]", "i, f, g, o = jnp.split(gates, 4, -1)", "h = jax.nn.sigmoid(o) * jnp.tanh(c)"}  # fmt: skip
    assert cell <= lines["lstm"]
    inner = {"q = q + eps * p", "return 0.5 * jnp.sum(q**2) + jnp.sum(jnp.cos(q))", "p = jax.random.normal(first, q.shape)"}  # fmt: skip
    assert inner <= lines["hmc"] and inner <= lines["chains"]
    assert {"return q + 0.1 * p, p", 'turning = jnp.dot(q - s["q"], p) < 0'} <= lines["nuts"]
    assert {"scan", "while", "cond"} <= set(seen["bodies"]["hmc"]["primitives"])
    for name in ("constrained", "abstract"):
        assert "sharding_constraint" in seen["bodies"][name]["primitives"]
    assert "shard_map" in seen["bodies"]["over abstract"]["primitives"]


MAGICS = ("xjit", "xstep", "xflow", "xhlo", "xhlo --passes", "xladder", "xtime", "xtime --profile", "xmem", "xdiff")  # fmt: skip


@pytest.mark.parametrize("form", ["total", "tr", "low", "comp", "jaxpr"])
@pytest.mark.parametrize("magic", MAGICS)
def test_each_magic_of_each_form(seen, magic, form):
    text = seen["magics"][f"%{magic} {form}"]
    if (magic, form) == ("xhlo --passes", "comp"):
        assert text.startswith("FAILED") and "keeps no module to compile again" in text
        return
    if magic == "xladder":
        if form in LATE:
            assert text.startswith("FAILED vmap:") and "a primitive of JAX's alone" in text
        else:
            assert "traced by jax 0.10.2, transformed by the rules of xlab" in text
        return
    assert not text.startswith("FAILED"), text
    assert text.count(by(form)) == 1, text
    assert ("bit for bit" in text) == (magic == "xstep")


def test_a_cell_calls_a_jit_and_says_what_it_cannot_trace(seen):
    m = seen["magics"]
    for form in ("total", "tr"):
        assert TRACED in m[f"%%xjit {form}"], form
        assert m[f"y of {form}"] == pytest.approx(m["y"], rel=1e-5)
    for form, why in (
        ("low", "'Lowered' object is not callable"),
        ("comp", "a function lowered and compiled for a particular signature"),
        ("jaxpr", "'ClosedJaxpr' object is not callable"),
    ):
        assert m[f"%%xjit {form}"].startswith("FAILED") and why in m[f"%%xjit {form}"], form
        assert m[f"y of {form}"] is None
