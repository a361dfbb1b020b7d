"""Effects of the user's own inside of control flow."""

from __future__ import annotations

import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.core.effects import Effect
from xlab.experimental.hijax import control_flow_allowed_effects
from xlab.extend.core import Primitive

LOOPS = {
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
    "while_loop": lambda f: lambda x: lax.while_loop(lambda c: c < 3, lambda c: f(c) + 1, x),
    "cond": lambda f: lambda x: lax.cond(x > 0, f, lambda c: c, x),
}


def made(in_control_flow: bool):
    class Counts(Effect):
        pass

    Counts.in_control_flow = in_control_flow
    counted = Primitive("counted")
    counted.def_effectful_abstract_eval(lambda x: (x, {Counts()}))
    return Counts, counted.bind


@pytest.mark.parametrize("name", LOOPS)
def test_what_may_not_run_any_number_of_times_is_refused(name):
    effect, f = made(False)
    with pytest.raises(NotImplementedError, match=rf"not supported in `{name}`: Counts.*add_type"):
        xlab.make_jaxpr(LOOPS[name](f))(jnp.float32(1))
    assert not control_flow_allowed_effects.contains(effect())
    assert control_flow_allowed_effects.filter_not_in([effect()]) == [effect()]
    control_flow_allowed_effects.add_type(effect)
    assert control_flow_allowed_effects.contains(effect())
    with pytest.raises(TypeError, match="subclass of Effect, got Counts"):
        control_flow_allowed_effects.add_type(effect())
    assert control_flow_allowed_effects.filter_in([effect()]) == [effect()]
    closed = xlab.make_jaxpr(LOOPS[name](f))(jnp.float32(1))
    assert "counted" in str(closed) and any(isinstance(e, effect) for e in closed.effects)


def test_others_may():
    effect, f = made(True)
    assert any(
        isinstance(e, effect) for e in xlab.make_jaxpr(LOOPS["scan"](f))(jnp.float32(1)).effects
    )
