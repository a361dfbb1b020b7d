"""Names of operations for compilers and profilers: named scopes, and the transformations around them."""

import re

import numpy as np
import pytest

import xlab
from xlab import lax
from xlab.core import source_info

X = np.ones(3, np.float32)


def layer(x):
    with xlab.named_scope("layer"):
        return lax.sin(x)


def model(x):
    with xlab.named_scope("model"):
        return xlab.jvp(layer, (x,), (x,))[1]


def total(x):
    return lax.reduce_sum(layer(x), (0,))


def names(fun, *args) -> dict[str, str]:
    """By operation what it is called, without the name of the program and the number of the equation."""
    text = xlab.jit(fun, name="f").lower(*args).as_text(debug_info=True)
    return dict(re.findall(r'stablehlo\.(\w+).* loc\("jit\(f\)/(.*);e\d+"', text))


@pytest.mark.parametrize(
    ("fun", "args", "operation", "name"),
    [
        (layer, (X,), "sine", "layer/sin"),
        (xlab.grad(total), (X,), "cosine", "jvp(layer)/cos"),
        (xlab.grad(total), (X,), "multiply", "transpose(jvp(layer))/mul"),
        (xlab.grad(total), (X,), "broadcast_in_dim", "transpose(jvp())/broadcast_in_dim"),
        (xlab.value_and_grad(total), (X,), "reduce", "jvp()/reduce_sum"),
        (xlab.vmap(layer), (X,), "sine", "vmap(layer)/sin"),
        (xlab.grad(lambda x: lax.reduce_sum(xlab.vmap(layer)(x), (0,))), (X,), "cosine", "jvp(vmap(layer))/cos"),
        (xlab.grad(xlab.grad(layer)), (X[0],), "sine", "jvp(jvp(layer))/sin"),
        (model, (X,), "cosine", "model/jvp(layer)/cos"),
        (lambda x: lax.cos(model(x)), (X,), "sine", ""),
    ],
)  # fmt: skip
def test_transformations_are_written_around_the_scopes_inside(fun, args, operation, name):
    assert names(fun, *args).get(operation, "") == name


def test_equations_keep_the_plain_names():
    (eqn, *_) = xlab.make_jaxpr(xlab.grad(total))(X).jaxpr.eqns
    assert eqn.source_info.name_stack == "layer"


def test_annotations_and_transformations_go_together():
    scope = source_info.Scope.of("a", (("k", "v"),))
    inner = source_info.extended(source_info.transformed(scope, "vmap"), "b")
    assert inner == "a/b" and source_info.shown_scope(inner) == "a/vmap(b)"
    assert source_info.annotations_of(inner) == (("k", "v"),)
    assert source_info.shown_scope(source_info.annotated_scope(inner, ())) == "a/vmap(b)"
    assert source_info.shown_scope("plain") == "plain"
