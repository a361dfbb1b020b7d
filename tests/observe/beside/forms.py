"""What `test_forms.py` looks at, in a process of its own: every view and every magic of every form of a program of JAX's."""

from __future__ import annotations

import os
import sys
from collections import Counter

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, vmap
from jax.random import normal
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.observe.beside.running import run_sections
from xlab import observe
from xlab.notebook.export import to_html
from xlab.observe.beside.calls import JaxFunction
from xlab.observe.beside.recognize import packages

sys.path.insert(0, os.getcwd())
MESH = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
WIDE = jax.device_put(np.ones((8, 4), np.float32), NamedSharding(MESH, P("data")))
Q = np.linspace(0.1, 1.6, 3, dtype=np.float32)


def total(x):
    return jnp.log(x).sum(0)


def other(x):
    return jnp.exp(x).sum(0)


JIT = jax.jit(total)
TRACED = JIT.trace(WIDE)
LOWERED = TRACED.lower()
COMPILED = LOWERED.compile()
JAXPR = jax.make_jaxpr(JIT)(WIDE)
FORMS = {
    "function": total,
    "jit": JIT,
    "traced": TRACED,
    "lowered": LOWERED,
    "compiled": COMPILED,
    "jaxpr": JAXPR,
    "open jaxpr": JAXPR.jaxpr,
}
STAGES = ("traced", "lowered", "compiled")
LOOKED_AT = {
    "program": observe.program,
    "transfers": observe.transfers,
    "memory": observe.memory,
    "cost": observe.cost,
    "findings": observe.findings,
    "passes": observe.passes,
}
RUN = {
    "nan_path": observe.nan_path,
    "trace": observe.trace,
    "series": lambda *call: observe.series(*call, name="a"),
    "profile": lambda *call: observe.profile(*call, repeat=2),
    "timeline": lambda *call: observe.timeline(*call, repeat=2),
    "time": lambda *call: observe.time(*call, repeat=2),
    "ladder": lambda *call: observe.ladder(*call, rungs=("vmap",)),
    "diff": lambda *call: observe.diff(call, (other, WIDE)),
}


def said(call, *args):
    try:
        return repr(call(*args))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def section_views():
    """The text of every view of every form; of those that run, with arguments."""
    out = {}
    for form, what in FORMS.items():
        for name, view in LOOKED_AT.items():
            out[f"{name} of {form}"] = said(view, what, *([] if form in STAGES else [WIDE]))
        for name, view in RUN.items():
            out[f"{name} of {form}"] = said(view, what, WIDE)
    return out


def section_without_arguments():
    """What is measured of a stage or a jaxpr without arguments runs on ones."""
    small = jax.jit(lambda x, *, key: x["a"] + normal(key, (3,)))
    kept = small.trace({"a": Q}, key=jax.random.key(0))
    forms = {"traced": kept, "lowered": kept.lower(), "compiled": kept.lower().compile(), "jaxpr": jax.make_jaxpr(jnp.sin)(Q)}  # fmt: skip
    return {
        form: [
            len(observe.profile(what, repeat=2).instructions) > 0,
            observe.timeline(what, repeat=2).steps,
        ]
        for form, what in forms.items()
    }


def section_alike():
    """The same figures of the same program, whichever of its forms is given."""
    out = {}
    for form in ("function", "jit", "traced", "lowered", "compiled"):
        call = [FORMS[form], *([] if form in STAGES else [WIDE])]
        cost = observe.cost(*call)
        out[form] = [
            [t.kind for t in observe.transfers(*call)],
            observe.memory(*call).peak,
            cost.sent,
            sorted(observe.profile(FORMS[form], WIDE, repeat=2).instructions),
            len(observe.timeline(FORMS[form], WIDE, repeat=2).devices),
        ]
    return out


def section_diffs():
    """Two stages, with arguments, run too; who made each is said."""
    timed = observe.diff((LOWERED, WIDE), (COMPILED, WIDE), repeat=2)
    two = observe.diff(LOWERED, (JIT, WIDE), names=("low", "f"))
    return {
        "timed": [f.what for f in timed.figures if f.group == "time"],
        "alone": observe.diff(TRACED, COMPILED).made_by,
        "two": repr(two).split("\n")[0],
    }


def section_pages():
    """The pages of the records say it too, once and before what they show."""
    bad = -np.asarray(WIDE)
    made = {
        "memory": observe.memory(total, WIDE),
        "cost": observe.cost(total, WIDE),
        "trace": observe.trace(total, bad),
        "timeline": observe.timeline(total, WIDE, repeat=2),
        "diff": observe.diff((total, WIDE), (other, WIDE)),
        "program": observe.program(total, WIDE),
        "ladder": observe.ladder(total, WIDE, rungs=("vmap",)),
    }
    return {k: [v.made_by in to_html(v), to_html(v.replace(made_by="")).count(v.made_by)] for k, v in made.items()}  # fmt: skip


def section_empty():
    """Where there is nothing to list it is said who compiled what has nothing."""
    f = jax.jit(lambda x: jnp.sin(x))
    return {
        "transfers": [observe.text(observe.transfers(f, Q)), repr(observe.transfers(f, Q))],
        "findings": observe.text(observe.findings(f, Q)),
        "ours": [getattr(observe.transfers(lambda x: x + 1, Q), "made_by", None), repr(observe.findings(lambda x: x + 1, Q))],
    }  # fmt: skip


def section_calls():
    """Which of the user's functions called which, from the frames that JAX keeps of an equation."""

    def layer(w, x):
        return jnp.tanh(x @ w)

    def update(ws, x):
        return jax.tree.map(lambda w: w - layer(w, x).sum(), ws)

    def step(ws, x):
        return update(ws, x)

    tree = observe.cost(jax.jit(step), [np.eye(3, dtype=np.float32)] * 4, Q).tree
    return [(c.label, depth) for c, depth in tree.walk()]


def section_kept():
    """Records of what JAX compiled, in the report of one call and of the next: those that the first report made."""
    calls = JaxFunction(jax.jit(lambda x: jnp.cos(x).sum()))
    made = []
    for _ in range(2):
        with observe.record() as session:
            calls(Q)
        made.append(observe.report(session))
    first, second = made
    return [
        first.programs[0].equations is second.programs[0].equations,
        first.memory[0] is second.memory[0],
        [n.text for n in second.notices].count(first.programs[0].made_by),
    ]


def section_owners():
    """Whose a function is that JAX's own functions were made of, or that is one of them, with arrays of NumPy."""
    made = {
        "vmap": jax.vmap(total),
        "jacfwd": jax.jacfwd(total),
        "jacrev": jax.jacrev(total),
        "hessian": jax.hessian(total),
        "of its module": lambda x: vmap(jnp.sin)(x) + normal(jax.random.key(0), x.shape),
        "einsum": jnp.einsum,
    }
    mixed = jax.vmap(lambda x: __import__("xlab"))
    return {
        "packages": {k: sorted(packages(f)) for k, f in made.items()},
        "mixed": sorted(packages(jax.vmap(observe.program))),
        "held": sorted(packages(mixed)),
        "looked at": [observe.program(f, np.ones((3, 3), np.float32)).made_by for f in list(made.values())[:5]],
    }  # fmt: skip


# -- programs whose bodies are the user's --------------------------------------------------------------------


def cell(params, carry, x):
    h, c = carry
    gates = x @ params["wx"] + h @ params["wh"] + params["b"]
    i, f, g, o = jnp.split(gates, 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return (h, c), h


def lstm_loss(params, xs):
    start = jnp.zeros((2, 4)), jnp.zeros((2, 4))
    _, hs = lax.scan(lambda carry, x: cell(params, carry, x), start, xs)
    return (hs**2).mean()


def potential(q):
    return 0.5 * jnp.sum(q**2) + jnp.sum(jnp.cos(q))


def leapfrog(q, p, eps, n):
    def step(s):
        q, p, i = s
        p = p - eps / 2 * jax.grad(potential)(q)
        q = q + eps * p
        p = p - eps / 2 * jax.grad(potential)(q)
        return q, p, i + 1

    return lax.while_loop(lambda s: s[2] < n, step, (q, p, 0))[:2]


@jax.jit
def hmc(key, q):
    def turn(q, key):
        first, second = jax.random.split(key)
        p = jax.random.normal(first, q.shape)
        q2, p2 = leapfrog(q, p, 0.1, 7)
        old = potential(q) + 0.5 * (p**2).sum()
        new = potential(q2) + 0.5 * (p2**2).sum()
        q = lax.cond(jnp.log(jax.random.uniform(second)) < old - new, lambda: q2, lambda: q)
        return q, q

    return lax.scan(turn, q, jax.random.split(key, 3))[1]


def nuts(key, q):
    """A path that doubles until it turns around."""

    def double(s):
        def inner(_, z):
            q, p = z
            p = p - 0.1 * jax.grad(potential)(q)
            return q + 0.1 * p, p

        q, p = lax.fori_loop(0, 2 ** s["depth"], inner, (s["q"], s["p"]))
        turning = jnp.dot(q - s["q"], p) < 0
        return {"q": jnp.where(turning, s["q"], q), "p": p, "depth": s["depth"] + 1, "turning": turning}  # fmt: skip

    start = {"q": q, "p": jax.random.normal(key, q.shape), "depth": 0, "turning": False}
    return lax.while_loop(lambda s: (s["depth"] < 5) & ~s["turning"], double, start)["q"]


def constrained(x, w):
    h = lax.with_sharding_constraint(jnp.tanh(x @ w), NamedSharding(MESH, P("data", None)))
    return (h**2).sum()


ABSTRACT = AbstractMesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def abstract(x, w):
    def body(c, _):
        c = lax.with_sharding_constraint(jnp.tanh(c @ w), NamedSharding(ABSTRACT, P("data", None)))
        return c, c.sum()

    return lax.scan(body, x, None, length=3)[1].sum()


def over_abstract(x, w):
    @jax.shard_map(mesh=ABSTRACT, in_specs=(P("data"), P()), out_specs=P())
    def inner(x, w):
        return lax.psum((jnp.tanh(x @ w) ** 2).sum(), "data")

    return inner(x, w)


def section_bodies():
    """Of each program: equations, those with a line of this file, those with another's, and how stepping ends."""
    w = jax.device_put(np.ones((4, 4), np.float32), NamedSharding(MESH, P()))
    params = {"wx": np.ones((3, 16), np.float32), "wh": np.ones((4, 16), np.float32), "b": np.zeros(16, np.float32)}  # fmt: skip
    key = jax.random.key(0)
    programs = {
        "lstm": (jax.value_and_grad(lstm_loss), params, np.ones((5, 2, 3), np.float32)),
        "hmc": (hmc, key, Q),
        "chains": (jax.vmap(hmc), jax.random.split(key, 2), np.ones((2, 3), np.float32)),
        "nuts": (nuts, key, Q),
        "constrained": (jax.grad(constrained, (0, 1)), WIDE, w),
        "abstract": (jax.grad(abstract, (0, 1)), WIDE, w),
        "over abstract": (jax.grad(over_abstract, (0, 1)), WIDE, w),
    }
    out = {}
    for name, (f, *args) in programs.items():
        p = observe.program(f, *args)
        files = Counter((e.source.file if e.source else "nowhere").rpartition("/")[2] for e, _ in p.walk())  # fmt: skip
        lines = {e.source.text.strip() for e, _ in p.walk() if e.source}
        names = {e.primitive for e, _ in p.walk()}
        out[name] = {
            "files": files,
            "lines": sorted(lines),
            "primitives": sorted(names),
            "opaque": [e.primitive for e, _ in p.walk() if "stablehlo=" in e.params],
            "stepped": observe.Stepper(f, *args).compared(),
        }
    return out


def section_examples():
    """Loops that end at another turn for each example, and for each of each; what JAX's links say of their equations."""
    run = lambda n, x, k: lax.while_loop(lambda s: s[0] < n * k, lambda s: (s[0] + 1, jnp.sin(s[1]) * k), (0, x))[1]  # fmt: skip
    n, x = jnp.array([1, 4, 0]), jnp.linspace(0.1, 2, 6, dtype=jnp.float32).reshape(3, 2)
    calls = {
        "one": (jax.vmap(run, (0, 0, None)), n, x, 2),
        "two": (jax.vmap(jax.vmap(run, (0, None, None)), (None, 0, None)), n, x, 2),
        "tangents": (jax.vmap(jax.jacfwd(run, 1), (0, 0, None)), n, x[:, 0], 2),
        "in another": (jax.vmap(lambda n, x: lax.fori_loop(0, n, lambda i, y: run(i, y, 2), x)), n, x),
    }  # fmt: skip
    found = {}
    for name, (f, *args) in calls.items():
        p = observe.program(f, *args, levels=True)
        linked = {i for level in p.levels if level.name == "stablehlo" for _, ids in level.links for i in ids}  # fmt: skip
        sines = [e.id for e, _ in p.walk() if e.primitive == "sin"]
        kinds = [e.primitive for e, _ in p.walk()]
        found[name] = [observe.Stepper(f, *args).compared(), "reduce_or" in kinds and "select_n" in kinds, bool(sines) and set(sines) <= linked]  # fmt: skip
    return found


def section_mapped():
    """What `jax.pmap` returns, which JAX gives no `trace`, and a `shard_map` of arrays that nobody has placed."""
    x = jnp.arange(16.0).reshape(8, 2)
    mesh = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))
    calls = {
        "pmap": (jax.pmap(lambda x, y: (lax.psum(x, "i") * y, x), axis_name="i"), x, x),
        "pmap static": (jax.pmap(lambda x, n: x * n, static_broadcasted_argnums=1), x, 3),
        "shard_map": (jax.jit(jax.shard_map(lambda x: lax.psum(x, "i") * x, mesh=mesh, in_specs=P("i"), out_specs=P("i"))), x),
    }  # fmt: skip
    found = {}
    for name, (f, *args) in calls.items():
        with observe.record() as session:
            JaxFunction(f)(*args)
        (p,) = observe.report(session).programs
        transfers = [t.kind for t in observe.transfers(f, *args)]
        kinds = [e.primitive for e, _ in p.walk()]
        found[name] = [p.made_by, observe.Stepper(f, *args).compared(), transfers, "shard_map" in kinds, observe.time(f, *args, repeat=2).runs]  # fmt: skip
    return found


def section_magics():
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    shell = InteractiveShell.instance()
    shell.user_ns.update(
        jax=jax, jnp=jnp, wide=WIDE, total=jax.jit(lambda x: jnp.sin(x).sum()), y=None
    )
    shell.run_cell("tr = total.trace(wide); low = tr.lower(); comp = low.compile(); jaxpr = jax.make_jaxpr(total)(wide)")  # fmt: skip
    shell.run_cell("%load_ext xlab")
    magics = {
        "xjit": "",
        "xstep": "",
        "xflow": "",
        "xhlo": "",
        "xhlo --passes": " --passes",
        "xladder": " --rungs vmap",
        "xtime": " --repeat 2",
        "xtime --profile": " --repeat 2 --profile",
        "xmem": "",
        "xdiff": " total(wide) --repeat 2",
    }
    out = {}
    for name, more in magics.items():
        for form in ("total", "tr", "low", "comp", "jaxpr"):
            out[f"%{name} {form}"] = _ran(shell, capture_output, f"%{name.split()[0]} {form}(wide){more}")  # fmt: skip
    for form in ("total", "tr", "low", "comp", "jaxpr"):
        shell.user_ns["y"] = None
        out[f"%%xjit {form}"] = _ran(shell, capture_output, f"%%xjit\ny = {form}(wide) * 2")
        out[f"y of {form}"] = None if shell.user_ns["y"] is None else float(shell.user_ns["y"])
    out["y"] = float(2 * np.sin(np.asarray(WIDE)).sum())
    return out


def _ran(shell, capture_output, cell):
    with capture_output() as got:
        ran = shell.run_cell(cell)
    text = got.stdout + "".join(o.data.get("text/plain", "") for o in got.outputs)
    return text if ran.success else f"FAILED {ran.error_in_exec}"


if __name__ == "__main__":
    run_sections(globals().copy())
