"""Every key beside all earlier ones; causes that other files do not reach; that nothing is computed where nothing is missed."""

import functools
import importlib

import numpy as np
import pytest

import xlab
from xlab import lax, observe
from xlab.compile.equal_programs import sharing
from xlab.compile.history import explain, parts
from xlab.experimental.layout import Format, Layout
from xlab.observe.records import Compilation, Record
from xlab.observe.records.ledger import key_table, sentence

X = np.ones(5, np.float32)


def compiles(name):
    return [e for e in observe.ledger().entries if e.function == name]


def test_every_earlier_key_is_beside_the_latest():
    f = xlab.jit(lambda batch, scale: lax.mul(batch, scale), name="held_against")
    for batch, scale in ((8, np.float32), (9, np.float32), (9, np.int32), (10, np.float32)):
        f(np.ones(batch, scale), np.ones(batch, scale))
    last = compiles("held_against")[-1]
    assert [n for n, _ in last.earlier] == [1, 2, 3] and dict(last.key) == {
        "batch": "f32[10]",
        "scale": "f32[10]",
    }
    assert [dict(parts)["batch"] for _, parts in last.earlier] == ["f32[8]", "f32[9]", "i32[9]"]
    assert key_table(last).splitlines() == [
        "  compile   batch      scale",
        "        1   f32[8] *   f32[8] *",
        "        2   f32[9] *   f32[9] *",
        "        3   i32[9] *   i32[9] *",
        "     this   f32[10]    f32[10]",
    ]
    assert "        3   i32[9] *   i32[9] *" in observe.text(last)
    assert Record.from_json(last.to_json()) == last


def test_a_recording_is_held_against_what_was_before_it():
    f = xlab.jit(lambda x: lax.neg(x), name="before_and_in")
    f(np.ones(3, np.float32))
    with observe.record() as session:
        f(np.ones(4, np.float32))
    (entry,) = [e for e in observe.ledger(session).entries if e.function == "before_and_in"]
    assert entry.nth == 2 and entry.earlier == ((1, (("x", "f32[3]"),)),)
    assert entry.spent_us > entry.duration_us > 0


def test_many_earlier_keys_are_counted(monkeypatch):
    monkeypatch.setattr(importlib.import_module("xlab.observe.timing.ledger"), "MOST_EARLIER", 3)
    f = xlab.jit(lambda x: lax.neg(x), name="often")
    for size in range(2, 9):
        f(np.ones(size, np.float32))
    last = compiles("often")[-1]
    assert [n for n, _ in last.earlier] == [4, 5, 6] and "3 older keys not shown" in key_table(last)


def test_objects_and_jits_are_numbered_in_order():
    def made(x):
        return lax.sin(x)

    for inline in False, True, True:  # equal options are one
        xlab.jit(made, inline=inline)(X)
    assert dict(compiles("made")[-1].key) == {"jit": "no. 2"}
    for _ in range(2):
        xlab.jit(lambda x: lax.cos(x), name="anew")(X)
    assert dict(compiles("anew")[-1].key) == {"function object": "no. 2", "jit": "no. 2"}


def test_all_parts_have_names():
    f = xlab.jit(
        lambda tree, n, factor=2.0: tree["w"] * n * factor, static_argnames="n", name="parted"
    )
    f({"w": X}, n=1)
    f({"w": X, "b": X}, n=2)
    with xlab.default_matmul_precision("highest"):
        f({"w": xlab.device_put(X, xlab.devices()[1])}, n=1)
    entry = compiles("parted")[-1]
    assert {
        "tree['b']",
        "static n",
        "structure",
        "default_matmul_precision",
        "placement of tree['w']",
    } <= dict(entry.key).keys()
    assert dict(entry.earlier[1][1])["static n"] == "2" and dict(entry.key)["tree['b']"] == ""


@pytest.mark.parametrize(
    ("first", "second", "cause", "fix"),
    [
        ({"in_shardings": "format"}, {"in_shardings": "sharding"}, "layout", "layout"),
        ({"out_shardings": "sharding"}, {}, "sharding", "jit"),
        ({}, {"donate_argnums": 0}, "donated set", "jit"),
        ({}, {"compiler_options": {"xla_embed_ir_in_executable": True}}, "option", "jit"),
    ],
)
def test_options_of_a_jit_are_causes(first, second, cause, fix):
    where = xlab.sharding.SingleDeviceSharding(xlab.devices()[0])
    given = {"format": Format(Layout((0,)), where), "sharding": where}

    def made(options):
        return {k: given.get(v, v) if isinstance(v, str) else v for k, v in options.items()}

    def caused(x):
        return lax.sin(lax.sin(x))

    caused.__name__ = f"caused_by_{cause}_{len(first)}".replace(" ", "_")
    xlab.jit(caused, **made(first))(xlab.device_put(X, xlab.devices()[0]))
    xlab.jit(caused, **made(second))(xlab.device_put(X, xlab.devices()[0]))
    entry = compiles(caused.__name__)[-1]
    assert [d.cause for d in entry.differences] == [cause] and fix in entry.fix


def test_static_values_go_by_their_names():
    def powered(x, n, mode="up"):
        return x**n

    f = xlab.jit(powered, static_argnums=(1, 2))
    f(X, 2, "up")
    f(X, 3, "up")
    assert (
        compiles("powered")[-1].reason
        == "the static argument of `powered` changed: `n` went from 2 to 3"
    )


def test_reasons_are_made_on_the_miss_path_only(monkeypatch):
    f = xlab.jit(lambda x: lax.sin(lax.sin(lax.neg(x))), name="only_on_a_miss")
    x = xlab.device_put(X)
    f(x)
    for module, name in (
        (explain, "trace_miss"),
        (explain, "compile_miss"),
        (parts, "traced"),
        (parts, "parts"),
        (parts, "describe"),
    ):
        monkeypatch.setattr(
            module, name, lambda *_, **__: pytest.fail("asked for a reason on a hit")
        )
    for _ in range(3):
        f(x)
    with observe.record():
        f(x)


def test_a_key_keeps_no_array_alive():
    import gc
    import weakref

    big = np.ones(1000, np.float32)

    class Held:
        value = big

    held = Held()
    gone = weakref.ref(held)

    def reads(x, held=held):
        return x + held.value.sum()

    xlab.jit(reads)(X)
    assert "a Held" in dict(parts.parts((_trace_key("reads"), None)))["closed-over held"]
    del held, reads
    xlab.clear_caches()
    gc.collect()
    assert gone() is None


def _trace_key(name):
    from xlab.compile.history import ledger

    return [e for e in ledger.entries if e.name == name][-1].key[0]


def test_old_records_still_read():
    assert Record.from_json({"record": "Compilation", "function": "f", "schema": 1}) == Compilation(
        "f"
    )


def test_a_definition_that_ran_again_is_told_from_a_loop():
    names = {"xlab": xlab, "X": X}
    cell = compile(
        "def defined_again(x):\n    return x * 7\nxlab.jit(defined_again)(X)\n",
        "<a cell that runs twice>",
        "exec",
    )
    exec(cell, names)
    exec(cell, names)
    first, second = compiles("defined_again")
    assert [d.cause for d in second.differences] == [
        "definition"
    ] and "was defined again" in second.reason
    assert (
        "define defined_again once, before the loop or in a cell of its own" in second.fix
        and not first.differences
    )


def test_of_too_many_compiles_the_text_has_the_latest():
    from xlab.observe.records import Ledger

    text = observe.text(Ledger(tuple(Compilation(f"f{n}") for n in range(300))), limit=3)
    assert text.splitlines() == [
        "300 compiles",
        "  … 297 earlier compiles: text(record, limit=None) shows all",
        *(f"  f{n}, compile 1" for n in (297, 298, 299)),
    ]


def test_what_a_transformation_made_stands_where_its_function_does_and_is_another_function():
    def f(x):
        return (x * x).sum()

    line = f.__code__.co_firstlineno
    made = {
        "f": f,
        "grad(f)": functools.partial(xlab.grad(f)),
        "vmap(grad(f))": xlab.vmap(xlab.grad(f)),
        "checkpoint(f)": xlab.checkpoint(f),
        "jacfwd(jacrev(f))": xlab.hessian(f),
        "jit(f)": xlab.jit(f),
        "custom_jvp(f)": xlab.custom_jvp(f),
    }
    made["custom_jvp(f)"].defjvps(lambda t, out, x: t.sum())
    with observe.record() as session:
        for fun in made.values():
            xlab.jit(fun)(np.ones((2, 5), np.float32))
    seen = [(e.function, e.nth, e.source.line) for e in observe.ledger(session).entries]
    assert seen == [(name, 1, line) for name in made]
    assert observe.ledger(session).entries[1].reason == "`grad(f)` was never seen before"


def test_wrapped_functions_of_ours_have_their_public_name():
    xlab.clear_caches()  # another test may have called it
    with observe.record() as session:
        xlab.numpy.linalg.norm(np.ones(3, np.float32))
    assert [e.function for e in observe.ledger(session, eager=True).entries] == ["norm"]


def test_following_the_advice_on_a_weak_type_compiles_once():
    from xlab import numpy as jnp

    w = np.ones(3, np.float32)
    f = xlab.jit(lambda w, lr: w * lr + lr * 2, name="weak_step")
    f(w, 0.1)
    f(w, jnp.float32(0.1))
    entry = next(e for e in reversed(observe.ledger().entries) if e.function == "weak_step")
    code = entry.fix.split(": ", 1)[1]
    assert code == "xlab.numpy.float32(lr)"
    g = xlab.jit(lambda w, lr: w * lr + lr * 3, name="strong_step")
    g(w, eval(code, {"xlab": xlab, "lr": 0.1}))
    g(w, jnp.float32(0.1))
    assert len([e for e in observe.ledger().entries if e.function == "strong_step"]) == 1


def test_another_structure_is_told_by_its_paths():
    def step(params, rate):
        return sum(xlab.tree.leaves(params)) * rate

    f = xlab.jit(step)
    f({"a": X}, 1.0)
    f({"a": X, "b": [X, X]}, 1.0)
    f({"a": X, "b": (X, X)}, 1.0)
    one, other = (e.reason.partition("changed: ")[2] for e in compiles("step")[-2:])
    assert one == "`params['b'][0]` was not there, `params['b'][1]` was not there"
    assert other == "`params['b']` was of type list, and is of type tuple"


def test_a_program_that_was_not_compiled_has_no_table():
    """One that another jit compiled is told as such."""
    made = [xlab.jit(lambda x: lax.sin(x) * 3.25, name="shared_anew") for _ in range(2)]
    with sharing():
        for f in made:
            f(X)
    first, second = compiles("shared_anew")
    assert not first.shared and second.shared == "shared_anew"
    assert not second.key and not second.earlier
    assert sentence(second).startswith("`shared_anew` is the same program as before and uses")


def test_a_program_that_was_traced_in_another_is_no_row_of_a_table():
    @xlab.jit
    def traced_inside(x):
        return lax.tanh(x) * 2

    xlab.jit(lambda x: traced_inside(x), name="around")(X)
    for n in (5, 6, 7):
        traced_inside(np.ones(n, np.float32))
    rows = [set(dict(parts)) for e in compiles("traced_inside") for _, parts in e.earlier]
    assert rows and all(row == {"x"} for row in rows)
    assert not any("" in dict(p).values() for e in compiles("traced_inside") for _, p in e.earlier)
