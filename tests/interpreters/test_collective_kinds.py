"""A kind of collective is declared once: prices, messages, the reading of compiled programs and the page read the declaration."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import xlab
import xlab.lax  # whose collectives have the rules
from xlab.backend import compiling
from xlab.interpreters import communication, communication_costs
from xlab.interpreters.communication import Algorithm, Collective
from xlab.notebook import assets
from xlab.notebook.views import dataflow_data
from xlab.observe.programs import hlo
from xlab.observe.records import MeshInfo, Transfer
from xlab.observe.sharding.collectives import predicted

LINK = communication_costs.Interconnect("mine", 1.5, 12_500.0)
MESH = MeshInfo(("x",), (8,), tuple(range(8)))


def test_every_primitive_is_of_a_declared_kind():
    kinds = set()
    for prim, rule in communication.collective_rules.items():
        params = (
            {"axes": ("x",)}
            if prim.name.endswith(("psum", "pmax", "pmin", "psum_invariant"))
            else {"axis_name": ("x",)}
        )
        params |= (
            {"perm": ()}
            if prim.name in ("ppermute", "precv")
            else {"axis_index_groups": None}
            if prim.name == "ragged_all_to_all"
            else {}
        )
        kinds.add(rule([], [], **params).kind)
    assert kinds == set(communication.collectives)


def test_opcodes_name_one_kind_each_and_the_backend_knows_them():
    every = [opcode for made in communication.collectives.values() for opcode in made.hlo]
    assert len(every) == len(set(every)) == len(communication.opcodes)
    for opcode in every:
        assert any(word.decode() in opcode for word in compiling._COLLECTIVES)


@pytest.mark.parametrize("kind", communication.collectives)
def test_prices_are_those_of_the_records(kind):
    made = communication.collectives[kind]
    pairs = tuple((i, (i + 3) % 8) for i in range(8)) if communication.by_pairs(kind) else ()
    record = Transfer(
        kind,
        axes=("x",),
        groups=() if pairs else (tuple(range(8)),),
        pairs=pairs,
        bytes_in=4096,
        mesh=MESH,
    )
    groups = dataflow_data.groups_of(record)
    for way, (steps, size, *more) in zip(
        communication.ALGORITHMS, dataflow_data.prices(record, 8, (8,), groups), strict=True
    ):
        load, links = more or (0, 1)
        us = steps * (LINK.alpha + size / LINK.beta) + load / (links * LINK.beta)
        assert us == pytest.approx(predicted(record, LINK, way, groups).predicted_us)
    sent = sum(
        m.size
        for m in communication.messages(kind, groups, pairs, bytes_in=4096, algorithm="direct")
    )
    assert sent == communication_costs.sent_in_all(kind, groups, pairs, 4096)
    assert made.reduces == any(
        m.action == "reduce" for m in communication.messages(kind, groups, pairs, bytes_in=4096)
    )


def test_the_scripts_of_the_page_name_no_kind():
    for path in (assets.ROOT / "views").glob("*.js"):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.search("|".join(communication.collectives), text), path.name


@pytest.fixture
def twice():
    """A kind that nobody knows: two sums one after the other."""
    made = communication.add_collective(
        Collective(
            "all_reduce_twice",
            ("all-reduce-twice",),
            ("scatter", "gather", "scatter", "gather"),
            lambda n, s: 4 * s * (n - 1) / n,
            ring=Algorithm(lambda n: 4 * (n - 1), lambda n, s: s / n, "4(n−1)(α + S/(nβ))"),
            bidirectional=Algorithm(
                lambda n: 4 * (n - 1), lambda n, s: s / (2 * n), "4(n−1)(α + S/(2nβ))"
            ),
            direct=Algorithm(lambda n: 4, lambda n, s: s * (n - 1) / n, "4(α + S(n−1)/(nβ))"),
        )
    )
    yield made
    del communication.collectives[made.kind], communication.opcodes["all-reduce-twice"]


def test_a_kind_of_ones_own_is_read_priced_and_drawn(twice):
    module = hlo.parse(
        "HloModule m\n\nENTRY %main (p: f32[4]) -> f32[4] {\n  %p = f32[4]{0} parameter(0)\n"
        "  ROOT %t = f32[4]{0} all-reduce-twice(%p), replica_groups={{0,1}}\n}\n"
    )
    assert [i.kind for i in module.entry.instructions] == ["", "all_reduce_twice"]
    record = predicted(
        Transfer("all_reduce_twice", "add", ("x",), (tuple(range(4)),), bytes_in=1024, mesh=MESH),
        LINK,
    )
    once = predicted(record.replace(kind="all_reduce"), LINK)
    assert (
        record.predicted_us == pytest.approx(2 * once.predicted_us) and "4(n−1)" in record.formula
    )
    assert record.sent == 2 * once.sent and record.rounds == once.rounds * 2
    assert not record.replace(origin="partitioner").reshards
    flow = dataflow_data.flow_data((record,), MESH)
    assert (
        flow["kinds"]["all_reduce_twice"]["stages"] == list(twice.stages)
        and "all_reduce_twice" in flow["reducing"]
    )
    (data,) = dataflow_data.transfers_data((record,), MESH)
    assert data["prices"][0] == [12, 256.0] and data["rounds"] == [] and json.dumps(flow)


def test_records_are_priced_where_no_primitive_is_loaded():
    import subprocess
    import sys

    code = (
        "import sys\nfrom xlab.observe.records import Transfer\n"
        "assert Transfer('all_gather', groups=((0, 1, 2, 3),), bytes_in=8).sent == 24\n"
        "assert 'xlab.lax.collectives' not in sys.modules"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=120, cwd=Path(xlab.__file__).parents[1]
    )
