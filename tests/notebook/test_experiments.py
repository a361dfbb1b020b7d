"""A page asks for other placements: what passes, what is refused, and what it is answered."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xlab
from tests.observe import sample_programs as programs
from xlab import P, lax, observe
from xlab import numpy as jnp
from xlab.notebook.experiments import handlers
from xlab.notebook.views import base
from xlab.notebook.views.report import ReportView
from xlab.notebook.views.whatif import read_placement

PLAIN = '{"specs": {"1": [[], ["model"]]}}'


@pytest.fixture(scope="module")
def ask():
    x, w = (
        programs.put(np.ones((64, 128)), "data", None),
        programs.put(np.ones((128, 256)), None, "data"),
    )
    found = handlers([xlab.jit(lambda x, w: lax.tanh(programs.matmul(x, w))).lower(x, w)])
    return lambda name, **arguments: base.answer(
        ReportView(), found, {"id": 7, "ask": name, "arguments": arguments}
    )


def test_a_change_is_answered_with_both_sides(ask):
    made = ask("what_if", program=0, placement=PLAIN)["answer"]
    assert made["record"] == "WhatIf" and made["before"]["sent"] > 0 and "sent" not in made["after"]
    large = ask("what_if", program=0, placement='{"mesh": [["data", 64], ["model", 8]]}')["answer"]
    assert large["after"]["mesh"]["axis_sizes"] == [64, 8]
    assert made["before"]["step_us"] > 0 and made["after"]["step_us"] > 0


@pytest.mark.parametrize("title", ["net.step(weights, batch['x'])", "In[3]"])
def test_the_code_to_paste_runs_where_the_call_or_the_cell_ran(title):
    """Under the names of the call, which are not those of the parameters, and of a cell under those that it reads."""
    put = programs.put
    ws = [{"up": put(np.ones((64, 128)), None, "data")} for _ in range(2)]
    x = put(np.ones((64, 64)), "data", None)
    called = title != "In[3]"

    def step(params, x):
        return sum(lax.tanh(programs.matmul(x, p["up"])) for p in params)

    def cell(weights, x):
        return step(weights, x)

    f = xlab.jit(step if called else cell)
    with observe.record() as session:
        f(ws, x)
    report = observe.report(session).replace(title=title)
    (known,) = ReportView().data(report)["whatif"]
    found = handlers(session.subjects, title=title)["search"](
        program=0, placement='{"vary": [0, 1, 2], "shapes": false}'
    )
    last = found.code.splitlines()[-1]
    assert last.startswith(known["put"])
    scope = {"weights": ws, "batch": {"x": x}, "x": None if called else x}
    exec(found.code, scope)
    root = "params" if called else "weights"
    spec = scope["specs"].get(f"{root}[*]['up']", P())
    assert all(P(*w["up"].sharding.spec) == spec for w in scope["weights"])
    assert scope["x"].shape == x.shape and scope["x"].sharding.mesh.shape == scope["mesh"].shape


def test_a_search_is_answered_in_turns_that_a_page_can_stop(ask):
    begin, on = '{"vary": [0, 1], "shapes": false}', '{"vary": [0, 1], "shapes": false, "on": true}'
    ranked = ask("search", program=0, placement=begin)["answer"]
    tried = [ranked["tried"]]
    while not ranked.get("done", True):  # what is usual is left out
        assert ranked["phase"]
        ranked = ask("search", program=0, placement=on)["answer"]
        tried.append(ranked["tried"])
    assert ranked["record"] == "Ranking" and tried == sorted(tried) and tried[-1] == 81
    assert [p.get("name") for p in ranked["found"]].count("now") == 1
    assert all("arguments" not in p for p in ranked["found"])
    again = ask("search", program=0, placement=begin)["answer"]
    assert (
        again["tried"] <= 81
        and "unknown machine"
        in ask("search", program=0, placement='{"machine": "abacus"}')["error"]
    )


@pytest.mark.parametrize(
    ("placement", "words"),
    [
        ("__import__('os')", "a placement is"),
        ("[]", "a placement is"),
        ('{"code": 1}', "a placement is"),
        ('{"specs": {"a": []}}', "a placement is"),
        ('{"specs": {"0": [["data"], 3]}}', "a placement is"),
        ('{"mesh": [["data", 1.5]]}', "a placement is"),
        ('{"mesh": [["data", true]]}', "a placement is"),
        ('{"shapes": 1}', "a placement is"),
        ('{"machine": ["cpu"]}', "a placement is"),
        ('{"mesh": [["a", 2], ["a", 2]]}', "each axis once"),
        ('{"mesh": [["a", 99999999]]}', "4,096 in all"),
        ('{"specs": {"7": [[]]}}', "2 arguments on devices"),
        ('{"specs": {"0": [["elsewhere"]]}}', "at most once"),
        ("[" * 50_000, "a placement is"),
        ("x" * 200_000, "a placement is"),
    ],
)
def test_anything_else_is_refused_with_words(ask, placement, words):
    assert words in ask("what_if", program=0, placement=placement)["error"]


def test_programs_are_those_of_the_report(ask):
    assert "asked for number 3" in ask("what_if", program=3, placement=PLAIN)["error"]
    assert "must be int" in ask("what_if", program="0", placement=PLAIN)["error"]
    assert (
        "needs a running kernel"
        in base.answer(
            ReportView(),
            {},
            {"id": 1, "ask": "what_if", "arguments": {"program": 0, "placement": PLAIN}},
        )["error"]
    )


def test_a_finding_is_answered_with_its_proof_and_its_times():
    """The change is compiled and run whatever the report spent on it; what makes nothing less says so."""

    def twice(x):
        y = jnp.tanh(x)
        return y, y

    x = np.ones((256, 256), np.float32)
    found = observe.findings(xlab.jit(twice), x, tries=0)
    (plain,) = [f for f in found if f.kind == "repeated result"]
    assert not plain.change and plain.provable
    useless = plain.replace(equation=99)
    asked = handlers([xlab.jit(twice).lower(x)], lambda: (plain, useless))
    ask = lambda n: base.answer(
        ReportView(), asked, {"id": 7, "ask": "prove", "arguments": {"finding": n}}
    )
    proved = ask(0)["answer"]
    assert proved["change"] == "return it once, without result[1]"
    assert "bytes read and written" in proved["proof"] and len(proved["measured_us"]) == 2
    assert "nothing becomes less" in ask(1)["answer"]["proof"]
    assert "2 findings; asked for number 2" in ask(2)["error"]


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["mesh", "specs", "vary", "0", "x"]), inner, max_size=3
            )
        ),
    )
)
def test_any_json_is_read_as_names_and_numbers_or_refused(value):
    try:
        specs, mesh, vary = read_placement(json.dumps(value))
    except ValueError:
        return
    assert all(
        type(k) is int and all(type(a) is str for axes in spec for a in axes)
        for k, spec in specs.items()
    )
    assert all(type(n) is str and type(s) is int for n, s in mesh.items()) and all(
        type(n) is int for n in vary
    )
