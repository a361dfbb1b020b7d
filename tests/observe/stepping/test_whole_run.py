"""What a whole run tells: who made the first NaN, backwards through loops and maps; one variable over all iterations and devices."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.observe import sample_programs as programs
from xlab import P, lax, observe
from xlab.observe.records import Record


def primitives(path):
    return [s.text.split(" = ")[1].split("[")[0].split()[0] for s in path.steps]


def test_a_path_leads_from_the_cause_to_the_result():
    def f(x):
        low = jnp.log(x - 1)
        return (low * 0 + x).sum()

    path = observe.nan_path(f, np.float32([1, 2]))
    assert primitives(path) == ["log", "mul", "add", "reduce_sum"]
    assert path.words == (
        "made 1 Inf of 1 zero",
        "made 1 NaN of 1 Inf times 0",
        "passed on 1 NaN",
        "passed on 1 NaN",
    )
    assert path.maker == 1 and Record.from_json(path.to_json()).to_json() == path.to_json()
    assert "mul" in next(x for x in observe.text(path).split("\n") if "the first NaN" in x)


def test_a_mask_of_infinities_makes_no_nan():
    def attention(q):
        s = jnp.where(jnp.tril(jnp.ones((3, 3), bool)), q @ q.T, -jnp.inf)
        return xlab.nn.softmax(s)

    path = observe.nan_path(attention, np.ones((3, 2), np.float32))
    assert not path.steps and "no NaN" in observe.text(path)

    # The same on devices that have a part of the batch each.
    apart = xlab.shard_map(
        xlab.vmap(attention), mesh=programs.mesh(), in_specs=P("data"), out_specs=P("data")
    )
    run = observe.step(apart)(np.ones((4, 3, 2), np.float32))
    assert run.run_to_nan() is None
    masked = [v for s in run.trace().steps for v in s.outputs if v.infs and not v.nans]
    assert masked, "the mask is there"


def test_a_path_goes_back_through_iterations():
    def f(x):
        def turn(c, t):
            c = jnp.sqrt(c - t)
            return c, c * 2

        return lax.scan(turn, x, jnp.arange(4.0))[1].mean()

    path = observe.nan_path(xlab.jit(f), np.float32(2))
    maker = path.steps[path.maker]
    assert maker.path[-1] == "scan 3/4" and "sqrt" in maker.text
    assert path.words[path.maker] == "made 1 NaN of 1 number below 0"
    assert primitives(path)[-2:] == ["reduce_sum", "div"]
    assert [s.index for s in path.steps] == sorted(s.index for s in path.steps)
    assert path.words[primitives(path).index("scan")] == "gave 3 NaNs, made inside"


def test_a_path_on_devices():
    body = lambda x: lax.psum(x, "data") / lax.psum(x - x, "data")
    f = xlab.shard_map(
        body, mesh=programs.mesh(), in_specs=programs.P("data"), out_specs=programs.P()
    )
    path = observe.nan_path(f, np.zeros(8, np.float32))
    maker = path.steps[path.maker]
    assert "div" in maker.text and "zeros by" in path.words[path.maker] and maker.path


def scanned(x):
    def turn(c, t):
        d = lax.mul(c, t)
        return lax.add(d, c), d

    return lax.scan(turn, np.float32(1), x)


def test_a_variable_over_all_iterations():
    x = np.arange(2, 5, dtype=np.float32)
    for name, values in (("d", [2, 9, 48]), ("t", [2, 3, 4])):
        found = observe.series(scanned, x, name=name)
        assert [p.value.max for p in found.points] == values and found.total == 3
        assert [p.path[-1] for p in found.points] == ["scan 1/3", "scan 2/3", "scan 3/3"]
    carried = observe.series(scanned, x, name="c")
    assert [p.value.max for p in carried.points][:2] == [1, 3]
    assert Record.from_json(carried.to_json()) == carried and "scan 2/3" in observe.text(carried)
    with pytest.raises(KeyError, match="no equation"):
        observe.series(scanned, x, name="nothing")


def test_a_variable_on_every_device():
    def body(x):
        def turn(i, c):
            e = c * 2
            return e

        return lax.fori_loop(0, 2, turn, x)

    f = xlab.shard_map(
        body, mesh=programs.mesh(), in_specs=programs.P("data"), out_specs=programs.P("data")
    )
    found = observe.series(f, np.arange(4, dtype=np.float32), name="e")
    assert [sorted({s.mean for s in p.value.shards}) for p in found.points] == [
        [0, 2, 4, 6],
        [0, 4, 8, 12],
    ]


def test_a_nan_that_the_program_writes_is_nobodys_fault():
    """`var` writes one for the case of too few entries: where nothing takes it, there is no NaN to look for."""

    def spread(x):
        return jnp.var(x, 0, ddof=1)

    path = observe.nan_path(spread, jnp.ones((3, 2)))
    assert not path.steps and not path.origin and "no NaN" in observe.text(path)

    taken = observe.nan_path(spread, jnp.ones((1, 2)))
    assert taken.words[taken.maker] == "gave 2 NaNs that the program writes"
    assert taken.result and len(taken.steps) > 1 and "the constant nan" in observe.text(taken)


def test_a_nan_that_an_argument_came_with_is_made_by_no_equation():
    bias = jnp.zeros(4).at[0].set(jnp.nan)
    path = observe.nan_path(lambda bias, x: x + jnp.reshape(bias, (1, 4)), bias, jnp.ones((8, 4)))
    assert path.maker == -1 and path.origin == "`bias`"
    assert path.words == ("passed on 1 NaN", "passed on 8 NaNs")
    words = observe.text(path)
    assert "from `bias`, which came with it" in words and "the first NaN" not in words


def test_of_two_results_the_one_with_the_earlier_nan_is_told():
    def f(x):
        a = jnp.log(x - 5)
        b = jnp.sqrt(x - 7)
        return {"b": b, "a": a}

    path = observe.nan_path(f, np.float32(1))
    assert primitives(path) == ["log"] and path.result == "`a`"


def test_of_rows_the_first_that_has_one_is_told():
    def f(x):
        def turn(c, t):
            c = c - 1
            return c, jnp.log(c) * x

        return lax.scan(turn, jnp.float32(3), jnp.arange(6))[1]

    path = observe.nan_path(f, np.float32(1))
    assert primitives(path)[-1] == "scan" and path.words[-1] == "gave 3 NaNs, made inside"
    assert path.maker == 0 and path.steps[0].path == ("scan 4/6",) and "log" in path.steps[0].text

    def passes_one_on_later(x):
        def turn(c, t):
            c = c - 1
            return jnp.where(t < 4, c, c * jnp.nan), jnp.log(c) * x

        return lax.scan(turn, jnp.float32(3), jnp.arange(6))

    path = observe.nan_path(passes_one_on_later, np.float32(1))
    assert path.steps[path.maker].path == ("scan 4/6",) and "log" in path.steps[path.maker].text


def test_one_made_inside_is_not_blamed_on_the_loop_around_it():
    def f(x):
        return lax.fori_loop(0, 3, lambda i, c: jnp.where(i > 1, jnp.nan, c), x)

    path = observe.nan_path(f, np.float32(1))
    assert path.maker == -1 or "while" not in path.steps[path.maker].text
    assert path.words[-1] == "gave 1 NaN, made inside"


def test_a_long_path_has_its_beginning_and_its_end():
    def f(x):
        def turn(c, t):
            return jnp.sqrt(c - 1) + jnp.where(t == 5, -10.0, 4.0), None

        return lax.scan(turn, x, jnp.arange(60))[0]

    path = observe.nan_path(f, np.float32(9))
    assert "sqrt" in path.steps[path.maker].text and path.steps[path.maker].path == ("scan 7/60",)
    assert path.total > len(path.steps) and path.words[-1] == "gave 1 NaN, made inside"
    (gap,) = (w for w in path.words if "not shown" in w)
    left = path.total - len(path.steps)
    assert gap == f"passed on 1 NaN, after {left} equations that are not shown"
    assert f"along {path.total} equations" in observe.text(path)
    assert Record.from_json(path.to_json()).to_json() == path.to_json()
