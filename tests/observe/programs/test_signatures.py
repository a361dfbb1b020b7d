"""Programs that take or give something else, made of their equations: what they compute and what is compiled of them."""

from __future__ import annotations

import numpy as np

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.observe.programs.signatures import (
    same_compiled,
    with_constant_given,
    without_arguments,
    without_equations,
    without_results,
)
from xlab.observe.programs.stages import program_stages

X = np.arange(100.0, dtype=np.float32).reshape(10, 10)


def compiled(f, *args, **options):
    stages = program_stages(xlab.jit(f, **options), args)
    stages.executable
    return stages


def run(stages, *args):
    return [np.asarray(x) for x in stages.executable.call([jnp.asarray(a) for a in args])]


def test_an_argument_that_is_not_read_makes_no_other_program():
    """Whichever place it has; and what stays has its place and its name."""
    stages = compiled(lambda a, b, c: a - c, X, X, 2 * X)
    made = without_arguments(stages, [1])
    assert same_compiled(made, stages)
    assert made.closed.jaxpr.debug_info.arg_names == ("a", "c")
    np.testing.assert_array_equal(run(made, X, 2 * X)[0], -X)


def test_an_argument_that_is_kept_makes_another():
    stages = compiled(lambda a, b, c: a - c, X, X, 2 * X, keep_unused=True)
    made = without_arguments(stages, [1])
    assert not same_compiled(made, stages)
    assert made.lowered.kept == (0, 1)
    np.testing.assert_array_equal(run(made, X, 2 * X)[0], -X)


def test_donations_go_with_their_arguments():
    stages = compiled(lambda a, b, c: (c + 1, a), X, X, X, donate_argnums=2)
    assert without_arguments(stages, [1]).lowered.donated == (1,)
    made = without_results(stages, [1])
    assert (
        made.lowered.donated == (2,) and made.closed.jaxpr.debug_info.result_name(0) == "result[0]"
    )
    assert without_results(stages, [0], [2]).lowered.donated == ()


def test_a_constant_becomes_the_last_argument():
    table, other = jnp.asarray(X), jnp.asarray(3 * X)
    stages = compiled(lambda x: x @ table + other, X)
    consts = [np.asarray(c) for c in stages.closed.consts]
    for n, value in enumerate(consts):
        made = with_constant_given(stages, n)
        assert not same_compiled(made, stages) and len(made.lowered.module.hoisted) == 1
        np.testing.assert_array_equal(run(made, X, value)[0], X @ X + 3 * X)
        assert (run(made, X, 0 * value)[0] != X @ X + 3 * X).any()


def test_equations_go_however_deep_they_stand():
    @xlab.jit
    def inner(x):
        spare = jnp.exp(x)
        del spare
        return x + 1

    stages = compiled(lambda x: lax.fori_loop(0, 3, lambda i, x: inner(x), x), X)
    (spare,) = [e for e in stages.equations.values() if e.primitive.name == "exp"]
    made = without_equations(stages, {id(spare)})
    assert len(made.equations) == len(stages.equations) - 1
    assert same_compiled(made, stages)
    assert spare in stages.equations.values(), "the program itself stays"
    np.testing.assert_array_equal(run(made, X)[0], X + 3)
