"""What a view shows of a plain function is what a call of it would run now; and no program made to be looked at is run by the user's own jit."""

from __future__ import annotations

import types

import numpy as np
import pytest

import xlab
from xlab import numpy as jnp
from xlab import observe
from xlab.observe.programs.values_read import values_read

x = jnp.arange(4.0)


def names_of(**values):
    """A function of an array that reads names of a module of its own, through another function; and these names."""
    names = {"__name__": "__main__", "jnp": jnp, **values}
    code = "def inner(a):\n    return a * READ\ndef outer(a):\n    return inner(a) + 1\n"
    exec(code.replace("READ", names.pop("READ")), names)
    return names["outer"], names


def change_global(names):
    names["n"] = 9.0


def change_list(names):
    names["n"][0] = 9.0


def change_dict(names):
    names["n"]["k"] = 9.0


def change_object(names):
    names["n"].k = 9.0


def change_array(names):
    names["n"] = np.full(4, 9.0, np.float32)


def redefine(names):
    exec("def n(): return 9.0", names)


def an_object():
    kind = type("Options", (), {"__module__": "__main__"})
    made = kind()
    made.k = 2.0
    return made


CHANGES = {
    "global": ("n", 2.0, change_global),
    "list": ("n[0]", [2.0], change_list),
    "dict": ("n['k']", {"k": 2.0}, change_dict),
    "object": ("n.k", an_object(), change_object),
    "array": ("n", np.full(4, 2.0, np.float32), change_array),
    "function": ("n()", types.FunctionType((lambda: 2.0).__code__, {}), redefine),
}


def ran(f):
    """The result, step by step."""
    stepper = observe.step(f)(x)
    stepper.run()
    return stepper.result().tolist()


@pytest.mark.parametrize("kind", CHANGES)
def test_a_changed_value_is_seen(kind):
    read, value, change = CHANGES[kind]
    f, names = names_of(READ=read, n=value)
    before = values_read(f)
    assert before == values_read(f)
    first = ran(f)
    change(names)
    assert before != values_read(f)
    assert [first, ran(f)] == [[1.0, 3.0, 5.0, 7.0], [1.0, 10.0, 19.0, 28.0]]
    assert "9.0" in str(observe.program(f, x)) or kind == "array"


@pytest.mark.parametrize(
    "look",
    [observe.program, observe.trace, observe.memory, observe.transfers, observe.time],
    ids=lambda look: look.__name__,
)
def test_looking_leaves_nothing_that_runs(look):
    f, names = names_of(READ="n", n=2.0)
    look(f, x)
    change_global(names)
    assert xlab.jit(f)(x).tolist() == f(x).tolist() == [1.0, 10.0, 19.0, 28.0]


def test_what_ran_is_not_looked_at():
    """A jit of the user's own keeps the program it was traced to; a plain function is looked at as it is."""
    f, names = names_of(READ="n", n=2.0)
    jitted = xlab.jit(f)
    jitted(x)
    change_global(names)
    assert jitted(x).tolist() == [1.0, 3.0, 5.0, 7.0]
    assert "2.0" in str(observe.program(jitted, x))
    assert "9.0" in str(observe.program(f, x))


def test_values_are_not_kept_alive():
    import gc
    import weakref

    f, names = names_of(READ="n", n=np.ones(4, np.complex64).repeat(1 << 18))
    read = values_read(f)
    alive = weakref.ref(names["n"])
    names["n"] = 2.0
    gc.collect()
    assert alive() is None
    assert read != values_read(f)
