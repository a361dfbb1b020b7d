"""What `pretty_print` says beside the program itself."""

from __future__ import annotations

import re

import pytest

import xlab
from xlab import lax
from xlab import numpy as jnp
from xlab.core.jaxpr import Jaxpr, JaxprEqn


def loop(x):
    with xlab.named_scope("outer"):
        y = jnp.sin(x) * 2
    return lax.scan(lambda c, t: (c + t, c), y, jnp.arange(3.0))


@pytest.fixture
def program():
    return xlab.make_jaxpr(loop)(1.0)


def test_without_options_it_is_what_str_gives(program):
    assert program.pretty_print() == program.pretty_print(use_color=False) == str(program)
    assert program.jaxpr.pretty_print(print_shapes=True) == str(program.jaxpr)


@pytest.mark.parametrize(
    ("option", "note"),
    [("source_info", r"/\S+\.py:\d+ \(loop\)"), ("name_stack", r"\[outer\]")],
)
def test_comments_stand_behind_the_first_line_of_each_equation(program, option, note):
    plain, text = str(program).split("\n"), program.pretty_print(**{option: True}).split("\n")
    split = [line.split(" # ") for line in text]
    assert [code.rstrip() for code, *_ in split] == [line.rstrip() for line in plain]
    with_note = [(code, notes[0]) for code, *notes in split if notes]
    assert len(with_note) == len(program.eqns) + 2, "two equations are inside of the loop"
    assert len({len(code) for code, _ in with_note}) == 1, "comments stand below each other"
    code, first = with_note[0]
    assert " sin " in code and re.fullmatch(note, first)


def test_comments_of_both_kinds_and_no_program_on_one_line():
    def short(x):
        return jnp.cos(x)

    text = xlab.make_jaxpr(short)(1.0).pretty_print(source_info=True, name_stack=True)
    assert re.search(r"\n    b:f32\[\] = cos a # \[\] \S+:\d+ \(", text)


def test_types_are_left_out(program):
    text = program.pretty_print(print_shapes=False)
    assert text.startswith("{ lambda ; a. let\n    b = sin a\n    c = mul b 2.0:f32[]\n")
    assert "{ lambda ; g h. let" in text


def test_effects_stand_at_the_ends_of_programs():
    def says(x):
        xlab.debug.print("{}", x)
        return x

    text = xlab.make_jaxpr(says)(1.0).pretty_print(print_effects=True)
    assert re.search(r"in \(a,\) : \{ \S.* \}", text)


def test_of_an_equation_from_nowhere_it_is_said():
    traced = xlab.make_jaxpr(jnp.cos)(1.0).jaxpr
    (eqn,) = traced.eqns
    bare = JaxprEqn(eqn.invars, eqn.outvars, eqn.primitive, eqn.params, eqn.effects)
    made = Jaxpr(traced.constvars, traced.invars, traced.outvars, [bare])
    text = made.pretty_print(source_info=True)
    assert text == "{ lambda ; a:f32[]. let\n    b:f32[] = cos a # an unknown place\n  in (b,) }"


def test_an_unknown_option_is_refused(program):
    with pytest.raises(TypeError, match="colors"):
        program.pretty_print(colors=True)
