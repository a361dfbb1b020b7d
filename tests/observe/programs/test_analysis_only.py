"""Compiles that only look at a program: not listed as the user's, and what they are warned of is not written a second time."""

import os
import threading

import numpy as np
import pytest

import xlab
from tests.observe import sample_programs as programs
from xlab import lax, observe
from xlab.observe.programs.analysis_only import suppress_warnings
from xlab.sharding import NamedSharding
from xlab.sharding import PartitionSpec as P

WARNING = "Involuntary full rematerialization"


def rebuilt(number):
    """A program that the native compiler warns of."""
    target = NamedSharding(programs.mesh(), P(None, "model"))
    return xlab.jit(
        lambda x: lax.sin(lax.with_sharding_constraint(lax.neg(x), target)) * number,
        out_shardings=target,
    )


@pytest.fixture
def x():
    return programs.put(np.ones((16, 16)), "data", None)


def listed():
    entries = observe.ledger().entries
    return entries[-1].nth, len(entries), entries[-1].function


LOOKS = {
    "compare": lambda f, x: (
        observe.compare(
            x, NamedSharding(programs.mesh(), P(None, "model")), compiled=True
        ).transfers
    ),
    "what_if": lambda f, x: (
        observe.what_if(f, (x,), in_shardings=(P("data", None),), mesh=programs.mesh()).transfers
    ),
    "experiment": lambda f, x: (
        observe.Experiment(f, x).weigh({0: (("data",), ())}).after.collectives
    ),
    "search": lambda f, x: observe.search_shardings(f, (x,), programs.mesh(), limit=2),
    "passes": lambda f, x: observe.passes(f, x),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_is_not_the_users_compile_and_repeats_no_warning(look, x, capfd):
    f = rebuilt(1.5 + list(LOOKS).index(look))
    f(x)
    capfd.readouterr()
    before = listed()
    assert LOOKS[look](f, x)
    assert listed() == before
    assert WARNING not in capfd.readouterr().err


def test_the_users_own_compile_is_heard_of_before_and_after_a_quiet_one(x, capfd):
    if int(os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0")) > 1:
        pytest.skip("native warnings are off")
    rebuilt(11.0)(x)
    assert WARNING in capfd.readouterr().err
    with suppress_warnings():
        rebuilt(12.0)(x)
        os.write(2, b"what others write\n")
        elsewhere = threading.Thread(target=print, args=("and threads",))
        elsewhere.start()
        elsewhere.join()
    got = capfd.readouterr()
    assert (
        WARNING not in got.err and got.err == "what others write\n" and got.out == "and threads\n"
    )
    rebuilt(13.0)(x)
    assert WARNING in capfd.readouterr().err


def test_a_cell_whose_report_flags_it_says_it_once(shell, x, capfd):
    shell.run_line_magic("load_ext", "xlab")
    shell.user_ns.update(x=x, target=NamedSharding(programs.mesh(), P(None, "model")), lax=lax)
    cell = "y = lax.sin(lax.with_sharding_constraint(lax.neg(x), target)) + {}"
    with observe.record():
        shell.run_cell_magic("xjit", "", cell.format(1))
    got = capfd.readouterr()
    assert "full rematerialization" in got.out and WARNING not in got.err
    shell.run_cell_magic("xjit", "--quiet", cell.format(2))
    assert WARNING in capfd.readouterr().err, "where no report tells it, the compiler does"
