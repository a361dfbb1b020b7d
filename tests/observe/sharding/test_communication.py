"""Messages replayed on NumPy give what the collective gives; costs follow the closed formulas."""

import numpy as np
import pytest

from xlab.interpreters import communication, communication_costs

GROUPS = ((3, 1, 0), (2, 4, 5))


def replay(kind, groups, values, algorithm):
    """Runs messages on one array of `n` (or, halved, `2n`) chunks per device; returns every device's state."""
    size = len(next(iter(values.values())))
    found = communication.messages(kind, groups, bytes_in=size, algorithm=algorithm)
    n = len(groups[0])
    chunks = {d: {} for g in groups for d in g}
    cuts = [size * i // n for i in range(n + 1)]

    def piece(chunk, start, stop):
        if algorithm != "bidirectional":
            return slice(start, stop)
        middle = start + (stop - start) - (stop - start) // 2
        return slice(start, middle) if chunk % 2 == 0 else slice(middle, stop)

    def where(chunk):
        index = chunk // 2 if algorithm == "bidirectional" else chunk
        if kind == "all_gather":
            return index * size + np.arange(size)[piece(chunk, 0, size)]
        return np.arange(size)[piece(chunk, cuts[index], cuts[index + 1])]

    total = size * n if kind == "all_gather" else size
    for g in groups:
        for rank, d in enumerate(g):
            chunks[d] = np.zeros(total)
            if kind == "all_gather":
                chunks[d][rank * size : (rank + 1) * size] = values[d]
            else:
                chunks[d][:] = values[d]
    for step in sorted({m.round for m in found}):
        now = [m for m in found if m.round == step]
        sent = [(m, chunks[m.source][where(m.chunk)].copy()) for m in now]
        for m, data in sent:
            assert len(data) == m.size
            if m.action == "reduce":
                chunks[m.target][where(m.chunk)] += data
            else:
                chunks[m.target][where(m.chunk)] = data
    return chunks


@pytest.mark.parametrize("algorithm", communication.ALGORITHMS)
@pytest.mark.parametrize("size", [6, 7, 12])
def test_messages_do_what_the_collective_does(algorithm, size):
    rng = np.random.default_rng(0)
    values = {d: rng.integers(0, 9, size).astype(float) for g in GROUPS for d in g}
    for g in GROUPS:
        gathered = replay("all_gather", GROUPS, values, algorithm)
        summed = replay("all_reduce", GROUPS, values, algorithm)
        scattered = replay("reduce_scatter", GROUPS, values, algorithm)
        want = sum(values[d] for d in g)
        for rank, d in enumerate(g):
            np.testing.assert_array_equal(gathered[d], np.concatenate([values[e] for e in g]))
            np.testing.assert_array_equal(summed[d], want)
            own = slice(size * rank // 3, size * (rank + 1) // 3)
            np.testing.assert_array_equal(scattered[d][own], want[own])


@pytest.mark.parametrize("algorithm", communication.ALGORITHMS)
def test_all_to_all_delivers_every_chunk(algorithm):
    n, size = 5, 20
    found = communication.messages(
        "all_to_all", (tuple(range(n)),), bytes_in=size, algorithm=algorithm
    )
    at = {(o, t): o for o in range(n) for t in range(n)}  # where the chunk from o to t is now
    for m in found:
        assert at[m.origin, m.chunk] == m.source and m.size == size // n
        at[m.origin, m.chunk] = m.target
    assert all(place == t for (_, t), place in at.items())


def test_bytes_sent_are_those_of_the_closed_formula():
    n, size = 4, 4096
    for kind in ("all_reduce", "all_gather", "reduce_scatter"):
        for algorithm in ("ring", "bidirectional"):
            found = communication.messages(
                kind, (tuple(range(n)),), bytes_in=size, algorithm=algorithm
            )
            sent = sum(m.size for m in found if m.source == 0)
            assert sent == communication_costs.sent_per_device(kind, n, size)
    direct = communication.messages(
        "all_to_all", (tuple(range(n)),), bytes_in=size, algorithm="direct"
    )
    assert sum(m.size for m in direct if m.source == 0) == communication_costs.sent_per_device(
        "all_to_all", n, size
    )


def test_costs():
    link = communication_costs.Interconnect("test", 2.0, 1000.0)
    n, s = 4, 8000
    assert communication_costs.cost("all_reduce", n, s, link=link)[0] == pytest.approx(
        2 * 3 * (2 + s / (4 * 1000))
    )
    assert communication_costs.cost("all_gather", n, s, link=link)[0] == pytest.approx(
        3 * (2 + s / 1000)
    )
    assert communication_costs.cost("reduce_scatter", n, s, link=link)[0] == pytest.approx(
        3 * (2 + s / 4000)
    )
    assert communication_costs.cost("all_to_all", n, s, link=link)[0] == pytest.approx(
        3 * 2 + s * 3 / 2000
    )
    assert communication_costs.cost("all_to_all", n, s, link=link, algorithm="bidirectional")[
        0
    ] == pytest.approx(2 * 2 + s * (16 // 4) / (2 * 4) / 1000)
    us, formula = communication_costs.cost("all_reduce", n, s, link=link, algorithm="bidirectional")
    assert us == pytest.approx(2 * 3 * (2 + s / 8000)) and "n=4" in formula and "8,000 B" in formula
    assert communication_costs.cost("all_reduce", 1, s)[0] == 0


def test_permutes_on_a_ring():
    group = ((0, 1, 2, 3),)
    assert communication_costs.permute_load(group, ((0, 1), (1, 2), (2, 3), (3, 0)), 8) == (1, 8)
    assert communication_costs.permute_load(group, ((0, 3),), 8) == (3, 8)
    assert communication_costs.permute_load(group, ((0, 3),), 8, both_ways=True) == (1, 8)
    assert communication_costs.permute_load(group, ((0, 2), (1, 3)), 8) == (2, 16)


def test_groups_along_axes():
    assert communication.groups_along(("a", "b"), (2, 2), ("a", "b")) == ((0, 1, 2, 3),)
    assert communication.groups_along(("a", "b"), (2, 2), ("b", "a")) == ((0, 2, 1, 3),)
    assert communication.groups_along(("a",), (4,), ("a",), ((0, 2), (1, 3))) == ((0, 2), (1, 3))
    with pytest.raises(ValueError, match="not in the mesh"):
        communication.groups_along(("a",), (4,), ("z",))


def test_ranks_of_a_permute_count_by_position_and_a_broadcast_starts_at_its_root():
    rows = communication.groups_along(("i", "j"), (4, 2), ("j", "i"))
    permute = communication.CollectiveOp("collective_permute", ("j", "i"), perm=((0, 1),))
    assert communication.pairs_along(communication.in_order(permute, rows), permute.perm) == (
        (0, 1),
    )
    (row,) = communication.in_order(
        communication.CollectiveOp("collective_broadcast", ("i",), root=3), ((10, 11, 12, 13, 14),)
    )
    found = communication.messages("collective_broadcast", (row,), bytes_in=4)
    assert [(m.source, m.target) for m in found] == [(13, 14), (14, 10), (10, 11), (11, 12)]


@pytest.mark.parametrize(
    "kind", ["all_reduce", "all_gather", "reduce_scatter", "collective_broadcast"]
)
def test_bytes_sent_in_all_are_those_of_the_messages_of_a_ring(kind):
    groups = ((0, 1, 2, 3), (4, 5))
    found = communication.messages(kind, groups, bytes_in=1 << 12)
    assert sum(m.size for m in found) == communication_costs.sent_in_all(kind, groups, (), 1 << 12)
    assert communication_costs.sent_in_all(kind, ((0,), (1,)), (), 1 << 12) == 0
