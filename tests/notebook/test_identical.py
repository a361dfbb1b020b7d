"""Looking changes nothing: the module compiled under `%%xjit` is, byte for byte, the one that plain `jit` makes."""

from __future__ import annotations

import re

import pytest
from IPython.utils.capture import capture_output

import xlab
from xlab.backend.compiling import hlo_text
from xlab.notebook import options
from xlab.notebook.cell import Cell, _functions
from xlab.notebook.magics import xjit
from xlab.sharding import set_mesh

SETUP = """
import numpy as np
import xlab
from xlab import lax, nn, random
from xlab import numpy as jnp
from xlab.sharding import PartitionSpec as P
x = jnp.arange(32.0).reshape(8, 4)
w = jnp.ones((4, 2))
p = {"w": jnp.ones((4, 4)), "b": jnp.zeros(4)}
key = random.key(0)
n = np.array(3)
def loss(p, x):
    for _ in range(2):
        x = nn.gelu(x @ p["w"] + p["b"])
    return jnp.mean(x ** 2)
"""

# cell: (options, text, the same as a function of its inputs written by hand)
CELLS = {
    "elementwise": ("", "y = jnp.sin(x) * 2 + 1", "y = jnp.sin(x) * 2 + 1\nreturn y"),
    "products": ("", "h = jnp.tanh(x @ w)\ny = h.sum()", "h = jnp.tanh(x @ w)\ny = h.sum()\nreturn h, y"),
    "gradient": ("", "slope = xlab.grad(loss)(p, x)['w']", "return xlab.grad(loss)(p, x)['w']"),
    "scan": ("", "c, ys = lax.scan(lambda c, t: (jnp.sin(c) + t, c), x[0], x)", "c, ys = lax.scan(lambda c, t: (jnp.sin(c) + t, c), x[0], x)\nreturn c, ys"),
    "loops and branches": (
        "", "y = lax.while_loop(lambda c: c.sum() < 1e3, lambda c: c * 2 + 1, x)\nz = lax.cond(y.sum() > 0, jnp.sin, jnp.cos, y)",
        "y = lax.while_loop(lambda c: c.sum() < 1e3, lambda c: c * 2 + 1, x)\nz = lax.cond(y.sum() > 0, jnp.sin, jnp.cos, y)\nreturn y, z"),
    "random numbers": ("", "y = random.normal(key, (8, 4)) + x", "y = random.normal(key, (8, 4)) + x\nreturn y"),
    "static": ("--static n", "y = x * float(n)\nfor _ in range(int(n)):\n    y = jnp.sin(y)", "y = x * 3.0\nfor _ in range(3):\n    y = jnp.sin(y)\nreturn y"),
    "donated": ("--donate x", "y = x + 1", "y = x + 1\nreturn y"),
    "sharded": ("--mesh data=4,model=2 --in 'x=data,None; w=None,model' --out 'y=data,model'", "y = jnp.tanh(x @ w)", "y = jnp.tanh(x @ w)\nreturn (y,)"),
    "sharded, with a collective": ("--mesh data=4,model=2 --in 'x=data,model; w=model,None'", "y = (x @ w).sum()", "y = (x @ w).sum()\nreturn y"),
    "sharded by hand": (
        "--mesh data=4 --in x=data", "y = xlab.shard_map(lambda a: lax.psum(a.sum(), 'data'), in_specs=P('data'), out_specs=P())(x)",
        "y = xlab.shard_map(lambda a: lax.psum(a.sum(), 'data'), in_specs=P('data'), out_specs=P())(x)\nreturn y"),
    "profiled, with passes": ("--passes --profile --repeat 2", "y = jnp.exp(x) @ w", "y = jnp.exp(x) @ w\nreturn y"),
}  # fmt: skip


@pytest.fixture
def lab(shell):
    shell.run_line_magic("load_ext", "xlab")
    shell.run_cell(SETUP).raise_error()
    yield shell
    shell.run_line_magic("xmesh", "off")


def looked_at(lab, monkeypatch, given: str, text: str):
    """The program that a `%%xjit` cell ran with everything shown, and the cell as the magic read it."""
    seen, places = [], []
    show, run = xjit.show_report, xjit.run_cell
    monkeypatch.setattr(
        xjit,
        "show_report",
        lambda run, *rest, **more: (show(run, *rest, **more), seen.append(run.session))[0],
    )
    monkeypatch.setattr(xjit, "run_cell", lambda *rest: (places.append(rest), run(*rest))[1])
    with capture_output() as got:
        lab.run_cell(f"%%xjit {given}\n{text}").raise_error()
    assert any("xl-saved" in o.data.get("text/html", "") for o in got.outputs)
    _, asked, _, place = places[0]
    return next(s for s in seen[0].subjects if s.name == "cell"), asked, place


def forget(lab):
    """Everything compiled and remembered is gone, and all names are as they were."""
    xlab.clear_caches()
    _functions.clear()
    xjit._jits.clear()
    lab.run_cell(SETUP).raise_error()


def placed(names, values, asked, mesh):
    ins = options.specs(asked.ins)
    return [
        xlab.device_put(v, options.named_sharding(mesh, ins[n], n)) if n in ins else v
        for n, v in zip(names, values, strict=True)
    ]


@pytest.mark.parametrize("name", CELLS)
def test_the_cell_under_plain_jit(lab, monkeypatch, name):
    given, text, _ = CELLS[name]
    seen, asked, place = looked_at(lab, monkeypatch, given, text)
    forget(lab)
    outs, mesh = options.specs(asked.outs), options.mesh(asked.mesh)
    made = Cell(
        place.source,
        lab.user_ns,
        filename=place.file,
        first_line=place.first,
        static=options.names(asked.static),
        named=tuple(outs),
    )
    shardings = (
        (tuple(options.named_sharding(mesh, s, n) for n, s in outs.items()), None) if outs else None
    )
    jitted = xlab.jit(
        made.function(),
        out_shardings=shardings,
        donate_argnames=options.names(asked.donate) or None,
    )
    with set_mesh(mesh):
        plain = (
            jitted.lower(*placed(made.reads, made.arguments(), asked, mesh)).compile()._executable
        )
    assert plain is not seen.executable
    assert plain.lowered.module.text == seen.lowered.module.text
    assert hlo_text(plain.native) == hlo_text(seen.executable.native)


@pytest.mark.parametrize("name", CELLS)
def test_a_function_written_by_hand(lab, monkeypatch, name):
    """The same computation in a function of its own: nothing but the places that lines came from tells the two apart."""
    given, text, by_hand = CELLS[name]
    seen, asked, _ = looked_at(lab, monkeypatch, given, text)
    forget(lab)
    outs, mesh = options.specs(asked.outs), options.mesh(asked.mesh)
    arguments = seen.closed.jaxpr.debug_info.arg_names
    names = list(dict.fromkeys(re.match(r"\w+", a)[0] for a in arguments))
    code = f"def cell({', '.join(names)}):\n" + "".join(
        f"    {line}\n" for line in by_hand.splitlines()
    )
    lab.run_cell(code).raise_error()
    shardings = tuple(options.named_sharding(mesh, s, n) for n, s in outs.items()) or None
    jitted = xlab.jit(
        lab.user_ns["cell"],
        out_shardings=shardings,
        donate_argnames=options.names(asked.donate) or None,
    )
    with set_mesh(mesh):
        plain = (
            jitted.lower(*placed(names, [lab.user_ns[n] for n in names], asked, mesh))
            .compile()
            ._executable
        )
    assert without_places(hlo_text(plain.native)) == without_places(
        hlo_text(seen.executable.native)
    )


def without_places(text: str) -> str:
    """A module without the lines it came from, and the tables of them."""
    text = re.sub(r"(?ms)^(FileNames|FunctionNames|FileLocations|StackFrames)\n.*?\n\n", "", text)
    return re.sub(r', metadata=\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}', "", text)
