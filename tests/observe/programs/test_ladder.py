"""A function under each transformation: every equation with its origin and its rule."""

import json

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax, observe
from xlab.observe.records import Record
from xlab.observe.records.ladder import Ladder, rule_counts
from xlab.sharding import set_mesh

X = np.ones((3, 4), np.float32)
W = np.ones((4, 2), np.float32)


def loss(x, w):
    y = jnp.sin(x) @ w
    return jnp.sum(y * y)


def rules(made, name):
    rung = next(r for r in made.rungs if r.name == name)
    return [(e.primitive, e.rule) for e, _ in rung.program.walk()]


@pytest.fixture(scope="module")
def ladder():
    return observe.ladder(loss, X, W)


def test_every_rung_and_every_equation_has_its_rule(ladder):
    assert [r.name for r in ladder.rungs] == [
        "f",
        "jvp",
        "linearize",
        "transpose",
        "grad",
        "vmap",
        "shard_map",
    ]
    assert ladder.left_out == ()
    assert ("cos", "jvp of sin") in rules(ladder, "jvp")
    assert ("dot_general", "jvp of dot_general → transpose of dot_general") in rules(
        ladder, "transpose"
    )
    assert ("add_any", "sum of cotangents") in rules(ladder, "grad")
    assert [rule for _, rule in rules(ladder, "vmap")] == [
        "batch of sin",
        "batch of dot_general",
        "batch of mul",
        "batch of reduce_sum",
    ]
    assert all(e.rule for r in ladder.rungs[1:] for e, _ in r.program.walk())


def test_equations_are_joined_to_those_of_the_function(ladder):
    first = {e.id for e, _ in ladder.rungs[0].program.walk()}
    for rung in ladder.rungs[1:]:
        ids = {e.id for e, _ in rung.program.walk()}
        assert {to for _, to in rung.links} <= first and {here for here, _ in rung.links} <= ids
    grad = next(r for r in ladder.rungs if r.name == "grad")
    assert {to for _, to in grad.links} == first
    assert {e.source.function for e, _ in grad.program.walk()} == {"loss"}


def test_values_and_derivatives_are_told_apart_and_named(ladder):
    jvp = next(r for r in ladder.rungs if r.name == "jvp")
    by_id = {e.id: e for e, _ in jvp.program.walk()}
    assert {by_id[n].primitive for n in jvp.derivative} == {
        "mul",
        "dot_general",
        "add_any",
        "reduce_sum",
    }
    assert [v.note for v in jvp.program.inputs] == ["x", "dx", "w"]
    assert {v.note for e in jvp.program.equations for v in e.outputs} >= {"y", "dy"}
    linear = next(r for r in ladder.rungs if r.name == "linearize")
    assert [v.note for v in linear.program.inputs] == ["dx"] and len(linear.program.constants) == 3


def test_the_programs_are_those_of_the_public_transformations(ladder):
    grad = next(r for r in ladder.rungs if r.name == "grad").program
    own = observe.program(xlab.grad(loss), X, W)
    assert [e.text for e in grad.equations] == [e.text for e in own.equations]


def test_one_transformation_of_another():
    made = observe.ladder(loss, X, W, rungs=("vmap(grad)", "grad(f)"))
    assert [r.name for r in made.rungs] == ["f", "vmap(grad)", "grad(f)"]
    assert ("mul", "jvp of sin → transpose of mul → batch of mul") in rules(made, "vmap(grad)")
    assert made.rungs[1].says.endswith("of grad")


def test_loops_custom_rules_and_inner_programs():
    @xlab.custom_jvp
    def double(z):
        return z * 2

    double.defjvp(lambda p, t: (double(p[0]), t[0] * 2.0))

    def fun(x):
        c = lax.scan(lambda c, t: (jnp.sin(c) * t, c), x[0], x)[0]
        return xlab.jit(lambda z: jnp.tanh(z))(double(c))

    made = observe.ladder(fun, np.ones(3, np.float32))
    assert ("scan", "jvp of scan → partial eval of scan → transpose of scan") in rules(made, "grad")
    assert ("mul", "custom rule of double") in rules(made, "jvp")
    assert ("mul", "jvp of sin → transpose of mul") in rules(made, "grad")
    jvp = made.rungs[1]
    assert {rule for e, _ in jvp.program.walk() if e.id in jvp.derivative for rule in [e.rule]} >= {
        "jvp of sin",
        "jvp of tanh",
    }


@pytest.mark.parametrize(
    ("fun", "arg"),
    [
        (lambda x: x, 1.0),
        (lambda x: jnp.ones(3), 1.0),
        (lambda a: jnp.linalg.solve(a, jnp.ones(3)).sum(), jnp.eye(3)),
        (lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x), 1.0),
        (lambda x: xlab.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x).sum(), jnp.ones(3)),
        (lambda p: p["a"].sum() * p["b"], {"a": jnp.ones(3), "b": 2.0}),
        (lambda x: xlab.nn.logsumexp(x), xlab.ShapeDtypeStruct((3,), jnp.float32)),
    ],
    ids=["identity", "constant", "solve", "cond", "checkpoint", "tree", "types only"],
)
def test_programs_of_every_make(fun, arg):
    made = observe.ladder(fun, arg)
    assert not [why for name, why in made.left_out if name != "grad" or "scalar-output" not in why]
    assert all(e.rule for r in made.rungs[1:] for e, _ in r.program.walk()) and observe.text(made)


def test_what_does_not_apply_says_why():
    made = observe.ladder(lambda i: lax.add(i, i), np.int32(3))
    assert [r.name for r in made.rungs] == ["f", "vmap", "shard_map"]
    assert dict(made.left_out)["grad"].startswith(
        "the first argument is not of real or complex numbers: int32"
    )
    whole = observe.ladder(lambda x: lax.sin(x), X, rungs=("grad", "hessian"))
    assert (
        "scalar-output" in dict(whole.left_out)["grad"]
        and "a rung is one of jvp" in dict(whole.left_out)["hessian"]
    )


def test_a_loss_with_something_besides_has_a_gradient():
    made = observe.ladder(lambda w, x: (jnp.sum((x @ w) ** 2), {"h": x @ w}), W, X)
    assert made.left_out == () and "grad" in [r.name for r in made.rungs]


def test_why_there_is_no_gradient_is_said_in_a_line():
    """Of types, not of values that are traced."""
    whole = observe.ladder(lambda x: {"loss": x.sum(), "layers": [x * i for i in range(9)]}, X)
    why = dict(whole.left_out)["grad"]
    shape = f"float32[{','.join(map(str, X.shape))}]"
    assert f"returned a dict of {shape}, {shape}, {shape}, {shape} and 6 more. Return" in why
    assert "Tracer" not in why and len(why) < 250


def test_derivatives_and_batches_of_other_arguments():
    made = observe.ladder(loss, X, W, argnums=1, in_axes=(0, None))
    rung = {r.name: r for r in made.rungs}
    assert made.left_out == ()
    assert [(v.note, v.type.shape) for v in rung["jvp"].program.inputs] == [
        ("x", (3, 4)),
        ("w", (4, 2)),
        ("dw", (4, 2)),
    ]
    assert "cos" not in {e.primitive for e, _ in rung["grad"].program.walk()}, (
        "nothing of x is differentiated"
    )
    assert [v.note for v in rung["linearize"].program.inputs] == ["dw"]
    own = observe.program(xlab.grad(loss, argnums=1), X, W)
    assert [e.text for e in rung["grad"].program.equations] == [e.text for e in own.equations]
    assert [v.type.shape for v in rung["vmap"].program.inputs] == [(2, 3, 4), (4, 2)]

    both = {r.name: r for r in observe.ladder(loss, X, W, argnums=(0, -1), in_axes=1).rungs}
    assert [v.note for v in both["jvp"].program.inputs] == ["x", "w", "dx", "dw"]
    assert {both["jvp"].program.equations[i].primitive for i in range(2)} == {"sin", "cos"}
    assert len(both["grad"].program.outputs) == len(both["transpose"].program.outputs) == 2
    assert [v.type.shape for v in both["vmap"].program.inputs] == [(3, 2, 4), (4, 2, 2)]
    assert [v.type.shape for v in both["shard_map"].program.inputs] == [
        (3, 2 * xlab.device_count(), 4),
        (4, 2 * xlab.device_count(), 2),
    ]


def test_options_that_do_not_fit():
    for options, word in (
        ({"argnums": 2}, "position"),
        ({"argnums": "w"}, "position"),
        ({"in_axes": (0,)}, "for each argument"),
        ({"in_axes": ("x", 0)}, "for each argument"),
        ({"in_axes": (-1, 0)}, "counted from 0"),
    ):
        with pytest.raises(ValueError, match=word):
            observe.ladder(loss, X, W, **options)
    made = observe.ladder(loss, X, W, rungs=("vmap",), in_axes=(None, 5))
    assert "5 dimensions before" in dict(made.left_out)["vmap"]
    made = observe.ladder(lambda i, x: x * i, np.int32(3), X, rungs=("jvp",))
    assert "argnums says which" in dict(made.left_out)["jvp"]


def test_a_mesh_that_is_set_is_the_one_cut_over():
    with set_mesh(xlab.make_mesh((2, 4), ("data", "model"))):
        made = observe.ladder(loss, X, W, rungs=("shard_map",))
    assert made.rungs[1].program.inputs[0].type.shape == (4, 3, 4)
    assert (
        "{V:data}" in made.rungs[1].program.equations[0].nested[0].equations[0].outputs[0].type.text
    )


def test_text_and_wire(ladder):
    assert Record.from_json(json.loads(json.dumps(ladder.to_json()))) == ladder
    lines = observe.text(ladder).splitlines()
    assert lines[0] == "ladder of loss   f → jvp → linearize → transpose → grad → vmap → shard_map"
    assert any(
        line.split() == ["1", "←", "0", "jvp", "of", "sin", "e:f32[3,4]", "=", "cos", "a"]
        for line in lines
    )
    assert repr(ladder) == observe.text(ladder)
    assert "more equation" in observe.text(ladder.rungs[1], limit=2)
    assert rule_counts(ladder.rungs[1])[0] == ("jvp of mul", 4)
    assert observe.text(Ladder("ladder of f", (), (("grad", "no"),))).endswith("left out: grad: no")
