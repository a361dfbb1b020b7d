"""Scopes of equations under models that open none: classes that are called, by what they are called."""

from __future__ import annotations

import xlab
import xlab.numpy as jnp
from xlab import observe


class Square:
    def __call__(self, x):
        return x * x


class Double:
    def __init__(self):
        self.square = Square()

    def __call__(self, x):
        return self.square(x) + x


class Net:
    def __init__(self):
        self.first, self.layers, self.parts = Double(), [Square()], {"last": Square()}
        self.jitted = xlab.jit(Square())

    def __call__(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        x = self.layers[0](x)
        x = self.parts["last"](x)
        x = (lambda f: f)(self.first.square)(x)
        return self.jitted(x) - 1.0


def scopes(fun, *args):
    return [(e.primitive, e.scope) for e, _ in observe.program(fun, *args).walk()]


def test_a_module_is_called_by_its_attribute_or_variable_or_class():
    assert scopes(Net(), 2.0) == [
        ("mul", "Net/first/square"),
        ("add", "Net/first"),
        ("mul", "Net/layer"),
        ("mul", "Net/layers[0]"),
        ("mul", "Net/parts['last']"),
        ("mul", "Net/Square"),
        ("jit", "Net"),
        ("mul", "Square"),  # a trace of its own, whose scopes are within those of the call
        ("sub", "Net"),
    ]


def test_the_backward_pass_and_batches_are_in_the_modules_of_the_forward_pass():
    for fun in (xlab.grad(lambda x: Double()(x)), xlab.vmap(Double())):
        found = dict.fromkeys(scope for _, scope in scopes(fun, jnp.ones(3) if fun.__name__ != "<lambda>" else 2.0))  # fmt: skip
        assert set(found) <= {"Double/square", "Double", ""} and "Double/square" in found


def test_costs_are_summed_by_module():
    sums = observe.cost(Net(), jnp.ones(3)).scopes
    assert {"Net/first/square", "Net/first", "Net/layer", "Net/Square"} <= {s.name for s in sums}


def test_scopes_that_were_opened_are_what_is_shown():
    def under(name, fun):
        def f(x):
            with xlab.named_scope(name):
                return fun(x)

        return {scope for _, scope in scopes(f, 2.0)}

    assert under("mine", Double()) == {"mine"}
    # Those that tell no module apart do not count.
    assert under("eqx.nn.Linear", Square()) == {"Square"}
    assert under("eqx.nn.Linear", lambda x: x * x) == {"eqx.nn.Linear"}
    assert under("ij,jk->ik", Square()) == {"Square/ij,jk->ik"}
