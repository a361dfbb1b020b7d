"""The program by its own structure: who calls whom, how often, forward and backward."""

from __future__ import annotations

import numpy as np

import xlab
import xlab.numpy as jnp
from xlab import P, lax, observe
from xlab.sharding import AxisType

X, W = np.ones((4, 8), np.float32), np.ones((8, 8), np.float32)


def attention(x, w):
    return jnp.tanh(x @ w)


def block(x, w):
    return attention(x, w) + x


def tower(params, x):
    for w in params:
        x = block(x, w)
    return x


def loss(params, x):
    return (tower(params, x) ** 2).sum()


def train_step(params, x):
    grads = xlab.grad(loss)(params, x)
    return [w - 0.1 * g for w, g in zip(params, grads)]


def shown(call):
    return [(c.label, depth) for c, depth in call.walk()]


def tree(f, *args):
    return observe.cost(f, *args, compile=False).tree


def test_layers_that_a_loop_calls_are_one():
    t = tree(train_step, [W] * 6, X)
    assert shown(t) == [
        ("train_step", 0), ("loss", 1), ("tower", 2), ("block ×6", 3), ("attention", 4),
    ]  # fmt: skip
    layer = t.children[0].children[0].children[0]
    assert layer.times == 6 and 0 < layer.backward_us < layer.us
    assert t.us >= t.children[0].us >= layer.us > 0
    assert layer.source.text.strip() == "x = block(x, w)"


def test_calls_from_several_lines_with_one_structure_are_one():
    def f(x, w):
        x = block(x, w)
        x = block(x, w)
        return block(x, w)

    t = tree(f, X, W)
    assert shown(t) == [("f", 0), ("block ×3", 1), ("attention", 2)]
    assert t.children[0].places == 3

    def g(x, w):
        return block(x, w) + block(x[:2], w).sum()  # of other shapes, so another thing

    assert [label for label, _ in shown(tree(g, X, W))].count("block") == 2


def test_loops_of_the_program_count_their_trips():
    def f(x, w):
        return lax.scan(lambda c, _: (block(c, w), None), x, None, length=3)[0]

    found = [c for c, _ in tree(f, X, W).walk() if c.name == "block"]
    assert [c.times for c in found] == [3]

    def g(x, w):
        return lax.while_loop(lambda c: c.sum() < 3, lambda c: block(c, w), x)

    assert "×?" in "".join(c.label for c, _ in tree(g, X, W).walk())


def test_functions_that_are_jitted_or_were_traced_before_keep_their_place():
    @xlab.jit
    def head(x, w):
        return block(x, w)

    def first(x, w):
        return head(x, w)

    def second(x, w):
        return head(x * 2, w)

    expected = [("head", 1), ("block", 2), ("attention", 3)]
    assert shown(tree(first, X, W)) == [("first", 0), *expected]
    assert shown(tree(second, X, W)) == [("second", 0), *expected]


def test_what_the_package_is_made_of_is_not_shown():
    def f(x):
        return jnp.where(x > 0, x, 0).mean()

    assert shown(tree(f, X)) == [("f", 0)]
    assert shown(tree(xlab.grad(f), X)) == [("f", 0)]


def test_comprehensions_are_part_of_their_function():
    def f(params):
        return [jnp.tanh(w) for w in params]

    assert shown(tree(f, [W, W])) == [("f", 0)]


def test_recomputed_layers_stand_where_they_are_called():
    def f(w, x):
        return xlab.checkpoint(block)(x, w).sum()

    names = {c.name for c, _ in tree(xlab.grad(f), W, X).walk()}
    assert {"f", "block", "attention"} <= names


def test_the_cell_in_which_a_function_was_traced_first_calls_nothing():
    names = {"xlab": xlab, "X": X, "W": W, "observe": observe}
    once = "@xlab.jit\ndef inner(x, w):\n    return x @ w\ninner(X, W)\n"
    exec(compile(once, "<a cell>", "exec"), names)
    then = "t = observe.cost(lambda x, w: inner(x, w) + 1, X, W, compile=False).tree"
    exec(compile(then, "<another cell>", "exec"), names)
    assert not [c.name for c in names["t"].children if c.name in ("<module>", "the cell")]
    assert "inner" in [c.name for c, _ in names["t"].walk()]


def test_a_derivative_that_makes_many_equations_is_one_call():
    """A result that no gradient comes to has a line of zeros for each of its arrays, all from the line of the derivative."""

    def normed(p, x):
        y = x * p["scale"] + p["shift"]
        return (y**2).sum(), {"mean": 0.9 * p["mean"] + x.mean(0)}

    def train(p, x):
        (_, new), grads = xlab.value_and_grad(normed, has_aux=True)(p, x)
        return new, grads

    params = {k: np.ones(8, np.float32) for k in ("scale", "shift", "mean", *"abcdefgh")}
    shown_ = shown(tree(train, params, X))
    assert ("train", 0) in shown_ and ("normed", 1) in shown_


def test_a_function_that_maps_over_leaves_is_called_once():
    def update(params, grads):
        return xlab.tree.map(lambda w, g: w - 0.1 * g, params, grads)

    def squares(params, x):
        return sum(jnp.sum(x @ w) for w in params)

    def step(params, x):
        return update(params, xlab.grad(squares)(params, x))

    assert shown(tree(xlab.jit(step), [W] * 5, X)) == [
        ("step", 0), ("squares", 1), ("update", 1), ("a lambda ×5", 2),
    ]  # fmt: skip

    def halved(params):
        return xlab.tree.map(lambda w: w / 2, params)

    assert shown(tree(halved, [W] * 5)) == [("halved", 0), ("a lambda ×5", 1)]

    def by_leaf(w):
        return xlab.tree.map(lambda w: jnp.tanh(w) / 2, w)

    def mapped(params):
        return xlab.tree.map(by_leaf, params)

    assert shown(tree(mapped, [W] * 5))[0] == ("mapped", 0)


def test_what_called_the_program_is_no_part_of_it():
    mesh = xlab.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))

    def shifted(x):
        return lax.ppermute(attention(x, x.T), "data", [(n, (n + 1) % 8) for n in range(8)])

    def chain(x):
        return lax.scan(lambda c, _: (jnp.tanh(c), c), x, length=3)[1]

    def caller():
        over = xlab.shard_map(shifted, mesh=mesh, in_specs=P("data"), out_specs=P("data"))
        yield xlab.jit(over), np.ones((8, 1), np.float32)
        yield xlab.jit(xlab.vmap(chain, out_axes=1)), X

    trees = [shown(tree(f, x)) for f, x in caller()]
    assert trees == [
        [("shifted", 0), ("attention", 1)],
        [("chain", 0), ("a lambda ×3", 1)],
    ]
