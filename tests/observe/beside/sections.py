"""What `test_beside.py` looks at, in a process of its own where JAX and xlab are both: prints what each section returns as JSON."""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stdout

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import numpy as np

import xlab
import xlab.numpy as xnp
from tests.observe.beside.running import run_sections
from xlab import observe
from xlab.notebook.export import to_html

sys.path.insert(0, os.getcwd())
observe.program(lambda x: xnp.sin(x), 1.0)
ALONE = "jax" not in sys.modules

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

X = np.linspace(0.1, 1.6, 16, dtype=np.float32).reshape(4, 4)


@jax.jit
def inner(x):
    return jnp.sin(x) * 2


def loss(x, w):
    y = inner(x) @ w
    with jax.named_scope("block"):
        z = jax.nn.relu(y)
    return lax.scan(lambda c, t: (c + t, c * t), z.sum(), z[0])[0]


GRAD = jax.grad(loss, 1)
MESH = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


def placed(x, *spec):
    return jax.device_put(x, NamedSharding(MESH, P(*spec)))


def names(jaxpr):
    out = []
    for e in jaxpr.eqns:
        out.append(e.primitive.name)
        for v in e.params.values():
            for one in v if isinstance(v, (tuple, list)) else [v]:
                one = getattr(one, "jaxpr", one)
                out += names(one) if hasattr(one, "eqns") else []
    return out


def section_alone():
    return ALONE


def section_program():
    p = observe.program(GRAD, X, X, levels=True)
    theirs = names(jax.make_jaxpr(GRAD)(X, X).jaxpr)
    walked = [e for e, _ in p.walk()]
    links = {level.name: sorted({i for _, ids in level.links for i in ids}) for level in p.levels}
    optimized = next(level for level in p.levels if level.name == "optimized")
    dots = [
        i
        for line, ids in optimized.links
        for i in ids
        if " dot(" in optimized.text.split("\n")[line - 1]
    ]
    return {
        "ours": [e.primitive for e in walked],
        "theirs": theirs,
        "lines": [e.source.text.strip() if e.source else "" for e in walked],
        "scopes": sorted({e.scope for e in walked}),
        "links": links,
        "dots": [next(e.primitive for e in walked if e.id == i) for i in dots],
        "by": p.made_by,
        "text": str(p).split("\n")[1],
        "jaxpr": [e.primitive for e, _ in observe.program(jax.make_jaxpr(GRAD)(X, X)).walk()],
        "traced": observe.program(jax.jit(GRAD).trace(X, X)) == observe.program(GRAD, X, X),
    }  # fmt: skip


def many(x, key, i):
    """Many kinds of equation."""
    y = jax.nn.softmax(x @ x).at[i].set(1.0).at[0, 1].add(2.0)
    y = y + jax.random.normal(key, (4, 4)) * jax.random.bernoulli(
        jax.random.fold_in(key, 1), 0.5, (4, 4)
    )
    y = lax.cond(y.sum() > 0, jnp.sin, jnp.cos, y)
    y = lax.while_loop(lambda c: c[0, 0] < 3, lambda c: c + 1, y)
    y, _ = lax.scan(lambda c, t: (c + t, c.sum()), y, y)
    y = jax.checkpoint(jnp.tanh)(y)
    z = lax.conv_general_dilated(y[None, None], x[None, None, :2, :2], (1, 1), "SAME")
    y = y + jax.pure_callback(np.square, jax.ShapeDtypeStruct((4, 4), np.float32), y)
    solved = jnp.linalg.solve(y @ y.T + np.eye(4, dtype=np.float32) * 9, y)
    return (y.sum() + z.sum(), jnp.argsort(y), jnp.round(y * 3).astype(np.int32), jnp.fft.fft(y), lax.top_k(y, 2)), solved, jax.random.split(key)  # fmt: skip


def section_stepping():
    s = observe.Stepper(many, X * 0.3, jax.random.key(0), np.int32(1))
    said = s.compared()
    opaque = [e.primitive for e, _ in s.program.walk() if "stablehlo=" in e.params]
    ours, theirs = s.result(), many(X * 0.3, jax.random.key(0), np.int32(1))
    same = [
        np.array_equal(np.asarray(getattr(a, "base", a)), np.asarray(jax.random.key_data(b) if a is not b and jnp.issubdtype(b.dtype, jax.dtypes.prng_key) else b))
        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs))
    ]  # fmt: skip
    sharded = jax.jit(lambda x, w: jnp.tanh(x @ w).sum(0))
    over = observe.Stepper(sharded, placed(np.ones((8, 4), np.float32), "data"), placed(np.ones((4, 6), np.float32), None, "model"))  # fmt: skip
    back = observe.Stepper(GRAD, X, X)
    first = back.next().text
    back.run()
    back.goto(1)
    return {
        "said": said,
        "opaque": opaque,
        "count": len(same),
        "sharded": over.compared(),
        "shards": len(over.goto(2).outputs[0].shards),
        "back": back.back() is None or back.next().text == first,
    }


def section_difference():
    """A result that is not JAX's is said to differ."""
    s = observe.Stepper(lambda x: jnp.cos(jnp.sin(x)), X)
    s.next()
    s.replace(s.live()[-1].name, X * 0 + 3)
    return s.compared()


def section_unknown():
    from jax.extend.core import Primitive
    from jax.interpreters import mlir

    cube = Primitive("cube_of_sines")
    cube.def_abstract_eval(lambda x: x)
    mlir.register_lowering(cube, mlir.lower_fun(lambda x: jnp.sin(x) ** 3, multiple_results=False))

    @jax.jit
    def f(x):
        return jax.jit(lambda y: cube.bind(y) + 1)(x) * 2

    p = observe.program(f, X, levels=True)
    found = next(e for e, _ in p.walk() if e.primitive == "cube_of_sines")
    s = observe.Stepper(f, X)
    said = s.compared()
    made = observe.ladder(f, X, rungs=("grad",))
    return {
        "params": found.params,
        "lines": sum(found.id in ids for _, ids in p.levels[0].links),
        "said": said,
        "ladder": dict(made.left_out).get("grad", ""),
    }


def section_passes():
    """What the compiler's passes changed is of JAX's own second compilation, with the numbers of equations."""
    compiled_for = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: compiled_for.append(event) if "backend_compile" in event else None
    )
    found = observe.passes(jax.jit(GRAD).lower(X, X))
    by_jax = len(compiled_for)
    numbered = observe.passes(lambda x: jax.jit(lambda y: jnp.sin(y) + 1)(x), X, all=True)
    inside = next(p.before for p in numbered if p.before)
    return {
        "count": len(found),
        "compiled by jax": by_jax,
        "marks": [line.split("# ")[-1] for line in inside.splitlines() if " sine(" in line],
        "names": ";e" in inside,
        "compiled": said(observe.passes, jax.jit(GRAD).lower(X, X).compile()),
    }


def section_collectives():
    f = jax.jit(lambda x, w: jnp.tanh(x @ w).sum(0))
    args = placed(np.ones((8, 4), np.float32), "data"), placed(np.ones((4, 6), np.float32), None, "model")  # fmt: skip
    found = observe.transfers(f, *args)
    text = f.lower(*args).compile().as_text()
    low = f.lower(*args)
    mapped = jax.shard_map(
        lambda x: lax.psum(x * (1 + lax.axis_index("data")), "data"),
        mesh=MESH,
        in_specs=P("data"),
        out_specs=P(),
    )
    inside = observe.transfers(mapped, args[0])
    return {
        "kinds": [t.kind for t in found],
        "lines": [t.source.text.strip()[:9] for t in found],
        "jax": text.count(" all-reduce("),
        "layout": str(observe.layout(args[0])).split("\n")[0],
        "sharding": observe.layout(args[0].sharding, (8, 4)).shard_shape,
        "lowered": [t.kind for t in observe.transfers(low)],
        "compiled": [t.kind for t in observe.transfers(low.compile())],
        "stages": [str(observe.program(x)).split("\n")[1] for x in (low, low.compile())],
        "stepped": [observe.Stepper(x, *args).compared() for x in (low, low.compile())],
        "memory": observe.memory(f, *args).peak == observe.memory(low.compile()).peak > 0,
        "psum": [(t.kind, t.origin, t.call) for t in inside],
        "mapped": observe.Stepper(mapped, args[0]).compared(),
    }


def model(batch, weights):
    return jnp.tanh(batch @ weights["w"]).sum(0)


def section_placements():
    """Other placements of a call of JAX's: JAX traces and compiles them, with its meshes and specs or ours."""
    x, w = np.ones((8, 4), np.float32), {"w": np.ones((4, 6), np.float32)}
    ours = xlab.make_mesh((4, 2), ("data", "model"), axis_types=(xlab.sharding.AxisType.Auto,) * 2)
    given = {"in_shardings": (P("data"), {"w": P()}), "mesh": MESH}
    f = jax.jit(model)
    plain = observe.what_if(model, (x, w), **given)
    text = f.lower(placed(x, "data"), {"w": placed(w["w"])}).compile().as_text()
    same = [
        observe.what_if(f, (x, w), in_shardings=(xlab.P("data"), xlab.P()), mesh=ours),
        observe.what_if(f, (placed(x, "data"), w), in_shardings=(P("data"), P())),
        observe.what_if(
            f,
            (x, w),
            in_shardings=(NamedSharding(MESH, P("data")), xlab.NamedSharding(ours, xlab.P())),
        ),
        observe.what_if(jax.make_jaxpr(f)(x, w), (x, w), **given),
    ]
    results = observe.what_if(f, (x, w), **given, out_shardings=P("model"))
    wide = xlab.sharding.Mesh(
        np.array(xlab.backend.client.virtual_devices(16)).reshape(8, 2), ("data", "model")
    )
    ranked = observe.search_shardings(f, (placed(x, "data"), w), arguments=(1,), limit=5)
    gather = jax.shard_map(
        lambda x: lax.all_gather(x, "data", tiled=True),
        mesh=MESH,
        in_specs=P("data"),
        out_specs=P("data"),
    )
    both = observe.transposed(gather, placed(x, "data"))
    put = [
        observe.place(model, (x, w), {"weights['w']": spec}, mesh)[1]["w"]
        for spec, mesh in ((P(None, "model"), MESH), (xlab.P(None, "model"), ours))
    ]
    back = observe.place(("w",), (jnp.ones(8),), {"w": P("data")}, MESH)[0]
    return {
        "kinds": [t.kind for t in plain.transfers],
        "jax": text.count(" all-reduce("),
        "lines": [t.source.text.strip() for t in plain.transfers],
        "by": [plain.programs[0].made_by, plain.notices[0].text],
        "peak": plain.memory[0].peak,
        "same": [([t.bytes_in for t in r.transfers], r.memory[0].peak) == ([t.bytes_in for t in plain.transfers], plain.memory[0].peak) for r in same],
        "results": [t.bytes_in for t in results.transfers] != [] and "sharding_constraint" in str(results.programs[0]),
        "ranked": [r.title for r in ranked],
        "best": len(ranked[0].transfers),
        "ranked by": {r.programs[0].made_by for r in ranked} == {plain.programs[0].made_by},
        "transposed": [[t.call for t in both.forward], [t.call for t in both.backward], both.beside, both.made_by],
        "page": both.made_by in to_html(both),
        "put": [isinstance(x, jax.Array) and x.sharding == NamedSharding(MESH, P(None, "model")) for x in put],
        "back": isinstance(back, jax.Array) and back.sharding.spec == P("data"),
        "no mesh": said(observe.what_if, f, (x, w), in_shardings=P("data")),
        "no mesh to search": said(observe.search_shardings, f, (x, w)),
        "wide": said(observe.what_if, f, (x, w), in_shardings=P("data"), mesh=wide),
        "stage": said(observe.what_if, f.lower(x, w), (x, w), **given),
        "no spec": said(observe.what_if, f, (x, w), in_shardings=3),
        "ours on theirs": [said(call, lambda x: xnp.sin(x), (x[:, 0],), **more) for call, more in ((observe.what_if, {"in_shardings": (xlab.P("data"),), "mesh": MESH}), (observe.search_shardings, {"mesh": MESH}))],
        "pattern": said(observe.place, model, (x, w), {"v": P()}, MESH),
    }  # fmt: skip


def section_jaxprs():
    """A jaxpr of arguments over a mesh has neither devices nor placements; its arguments have them."""
    f = jax.jit(lambda x, w: jnp.tanh(x @ w).sum(0))
    args = placed(np.ones((8, 4), np.float32), "data"), placed(np.ones((4, 6), np.float32), None, "model")  # fmt: skip
    made = jax.make_jaxpr(f)(*args)
    return {
        "alone": said(observe.transfers, made),
        "placed": [t.kind for t in observe.transfers(made, *args)],
        "function": [t.kind for t in observe.transfers(f, *args)],
        "memory": observe.memory(made, *args).peak == observe.memory(f, *args).peak,
        "stepped": observe.Stepper(made, *args).compared(),
        "open": observe.Stepper(made.jaxpr, *args).compared(),
        "cost": observe.cost(made, *args).us == observe.cost(f, *args).us > 0,
        "passes": len(observe.passes(made, *args)) > 0,
        "findings": len(observe.findings(made, *args)) == len(observe.findings(f, *args)),
        "too few": said(observe.transfers, made, args[0]),
        "another": said(observe.transfers, made, args[1], args[0]),
        "program": len(observe.program(made).equations),
    }  # fmt: skip


def section_views():
    """The other views of a function of JAX's."""
    f = jax.jit(lambda x: jnp.log(x).sum(0))
    x = placed(np.ones((8, 4), np.float32), "data")
    bad = placed(np.full((8, 4), -1, np.float32), "data")
    there = jax.jit(lambda x: lax.with_sharding_constraint(lax.with_sharding_constraint(x + 1, NamedSharding(MESH, P(None, "data"))), NamedSharding(MESH, P("data"))))  # fmt: skip
    with observe.record() as session:
        f_of_x = observe.programs.view_jits.jitted(f, {}, (x,))(x)
    report = observe.report(session)
    out = {
        "findings": [found.kind for found in observe.findings(there, placed(np.ones((512, 512), np.float32), "data"))],
        "cost": [observe.cost(f, x).us > 0, str(observe.cost(f, x)).split("\n")[0]],
        "diff": [(p.state, p.left, p.right) for p in observe.diff((f, x), (lambda x: jnp.exp(x).sum(0), x)).pairs if p.state != "same"],
        "nan": str(observe.nan_path(f, bad)),
        "no nan": str(observe.nan_path(f, x)),
        "series": len(observe.series(lambda x: lax.scan(lambda carry, t: (carry * t, carry), 1.0, x)[0], np.float32([2, 3, 4]), name="carry").points),
        "trace": len(observe.trace(f, x).steps),
        "profile": sorted(observe.profile(f, x).instructions),
        "timeline": [len(observe.timeline(f, x).devices), observe.timeline(f, x).function],
        "report": [report.programs[0].made_by, [t.kind for t in report.transfers], [p.kind for p in report.phases], isinstance(f_of_x, jax.Array)],
    }  # fmt: skip
    return out


def section_rules():
    """Custom derivative rules of JAX's under our transformations."""

    @jax.custom_jvp
    def fj(x):
        return jnp.sin(x)

    fj.defjvp(lambda p, t: (fj(p[0]), 3 * t[0]))

    @jax.custom_vjp
    def fv(x):
        return jnp.sin(x)

    fv.defvjp(lambda x: (fv(x), x), lambda x, g: (5 * g * x,))
    from xlab.observe.beside import calls

    out = {}
    for name, f in (("jvp", fj), ("vjp", fv)):
        run, _ = calls.ours_of(calls.program_of(lambda x, f=f: f(x).sum(), (X,)), (X,), {})
        out[name] = bool(np.array_equal(xlab.grad(run)(X), jax.grad(lambda x, f=f: f(x).sum())(X)))
    made = observe.ladder(loss, X, X, rungs=("grad", "vmap"))
    out["rungs"] = [r.name for r in made.rungs], made.left_out
    return out


class Model:
    """As libraries have them: arrays beside a function and a name."""

    def __init__(self, weight, act, name="m"):
        self.weight, self.act, self.name = weight, act, name

    def __call__(self, x):
        return self.act(x @ self.weight)


jax.tree_util.register_pytree_with_keys(
    Model,
    lambda m: (
        tuple((jax.tree_util.GetAttrKey(n), getattr(m, n)) for n in ("weight", "act", "name")),
        None,
    ),
    lambda _, parts: Model(*parts),
)


class Jitted:
    """A library's own form of `jit`, which keeps what is no array out of the runtime's."""

    __name__ = "step"

    def __init__(self, fun):
        self.__wrapped__ = fun

    def lower(self, *args):
        return self

    def __call__(self, model, x, scale):
        fun = jax.jit(lambda w, x, s: self.__wrapped__(Model(w, model.act, model.name), x, s).weight)  # fmt: skip
        return Model(fun(model.weight, x, scale), model.act, model.name)


def section_held():
    """Models that hold functions and names are arguments, whose arrays JAX traces."""
    model = Model(jnp.asarray(X), jax.nn.relu)

    def step(model, x, scale):
        g = jax.grad(lambda w: (Model(w, model.act)(x) ** 2).sum())(model.weight)
        return Model(model.weight - scale * g, model.act, model.name)

    jitted = Jitted(step)
    p = observe.program(jitted, model, X, 0.1)
    stepper = observe.Stepper(jitted, model, X, 0.1)
    said = stepper.compared()
    other = observe.program(lambda m, x: m(x), Model(jnp.asarray(X), jnp.tanh), X)
    again = observe.program(lambda m, x: m(x), Model(jnp.asarray(X), jnp.sin), X)
    with observe.record() as session:
        result = observe.programs.view_jits.jitted(jitted, {}, (model, X, 0.1))(model, X, 0.1)
    return {
        "arguments": [v.note for v in p.inputs],
        "by": p.made_by,
        "said": said,
        "result": [type(result).__name__, result.name, result.act is jax.nn.relu],
        "ran": [e.kind for e in session.events if e.kind == "execute"],
        "time": observe.time(jitted, model, X, 0.1, repeat=2).runs,
        "kinds": ["tanh" in str(other), " sin" in str(again)],
    }


def section_equinox():
    """The same with equinox's own, where it is installed."""
    import importlib.util

    if importlib.util.find_spec("equinox") is None:
        return None
    import equinox as eqx

    model = eqx.nn.MLP(4, 2, 8, 2, key=jax.random.key(0))

    @eqx.filter_jit
    def loss(model, x, act, n):
        return (act(jax.vmap(model)(x)) * n).sum()

    p = observe.program(loss, model, X, jnp.tanh, 2.0)
    return {
        "arguments": [v.note for v in p.inputs],
        "said": observe.Stepper(loss, model, X, jnp.tanh, 2.0).compared(),
    }


def said(call, *args, **kwargs):
    try:
        return f"no error: {call(*args, **kwargs)!r}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def section_mixed():
    ours, theirs = xnp.ones(3), jnp.ones(3)
    plain = lambda x, y: x + y
    both = lambda x: xnp.sin(jnp.sin(x))
    stage = jax.jit(jnp.sin).trace(theirs)
    return {
        "jax function, our array": said(observe.program, lambda x: jnp.sin(x), ours),
        "our function, jax array": said(observe.program, lambda x: xnp.sin(x), theirs),
        "our jit, jax array": said(xlab.jit(lambda x: xnp.sin(x)), theirs),
        "jax jit, our array": said(jax.jit(jnp.sin), ours),
        "both arrays": said(observe.program, plain, ours, theirs),
        "both packages": said(observe.program, both, 1.0),
        "our jit of a jax function": said(xlab.jit(lambda x: jnp.sin(x)), ours),
        "stage with arguments": said(observe.program, stage, theirs),
        "plain, jax": observe.program(plain, theirs, theirs).made_by,
        "our maps": observe.program(xlab.pmap(lambda x: xnp.sin(x)), np.ones((8, 2), np.float32)).made_by,
        "plain, ours": observe.program(plain, ours, ours).made_by,
        "numbers": observe.program(lambda x: jnp.sin(x), 1.0).made_by,
        "nothing to step": said(observe.Stepper, jax.make_jaxpr(loss)(X, X)),
        "nothing to iterate": said(lambda: list(observe.steps(stage))),
        "too many": said(observe.Stepper, stage, theirs, theirs),
        "rungs": [r.name for r in observe.ladder(jax.make_jaxpr(jnp.sin)(1.0), rungs=("grad",)).rungs],
        "rungs of too many": said(observe.ladder, jax.make_jaxpr(jnp.sin)(1.0), 1.0, 2.0),
        "time": [said(observe.time, x) for x in (stage, stage.lower(), jax.make_jaxpr(jnp.sin)(theirs))],
        "timed": [observe.time(x, theirs, repeat=2).runs for x in (stage, stage.lower(), stage.lower().compile(), jax.make_jaxpr(jnp.sin)(theirs))],
        "partial": observe.program(__import__("functools").partial(loss, w=X), X).made_by,
        "static": observe.program(jax.jit(lambda x, n: x * n, static_argnums=1), theirs, 3).made_by,
        "static steps": said(observe.Stepper, jax.jit(lambda x, n: x * n, static_argnums=1), theirs, 3),
        "static time": observe.time(jax.jit(lambda x, n: x * n, static_argnums=1), theirs, 3, repeat=2).runs,
        "donated": said(observe.Stepper, lambda x: x + 1, gone()),
    }  # fmt: skip


def gone():
    x = jnp.ones(3) + 1
    jax.jit(lambda x: x + 1, donate_argnums=0)(x)
    return x


def section_magics():
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    shell = InteractiveShell.instance()
    shell.user_ns.update(
        jax=jax, jnp=jnp, np=np, X=jnp.asarray(X), loss=loss, GRAD=GRAD, placed=placed, wide=placed(np.ones((8, 4), np.float32), "data"),
        total=jax.jit(lambda x: x.sum(0)),
    )  # fmt: skip
    shell.run_cell(
        "jaxpr = jax.make_jaxpr(total)(wide); low = total.lower(wide); comp = low.compile()"
    )
    shell.run_cell("%load_ext xlab")
    out = {}
    for cell in (
        "%xjit GRAD(X, X)",
        "%xstep GRAD(X, X)",
        "%xflow total(wide)",
        "%xflow loss(X, X)",
        "%xhlo loss(X, X)",
        "%xhlo loss(X, X) --passes",
        "%xladder loss(X, X) --rungs grad",
        "%xtime total(wide) --repeat 3",
        "%xmem total(wide)",
        "%xshard wide",
        "%xdiff loss(X, X) GRAD(X, X)",
        "from xlab.notebook import show\nshow(jax.make_jaxpr(loss)(X, X))",
        *(
            f"%{magic} {form}(wide)"
            for magic in ("xjit", "xstep", "xflow", "xhlo", "xladder", "xtime", "xmem")
            for form in ("jaxpr", "low", "comp")
        ),
        "%%xjit\ny = jnp.tanh(X @ X)\nstate = {'y': y.sum(0), 'n': 3}",
    ):
        with capture_output() as got:
            ran = shell.run_cell(cell)
        text = got.stdout + "".join(o.data.get("text/plain", "") for o in got.outputs)
        if not ran.success:
            text = f"FAILED {ran.error_in_exec!r}\n" + text
        out[cell.replace("from xlab.notebook import show\n", "").split("\n")[0]] = text
        if cell == "%xjit GRAD(X, X)":
            out["result"] = type(ran.result).__name__, isinstance(ran.result, jax.Array), bool(np.array_equal(ran.result, GRAD(X, X)))  # fmt: skip
    ns = shell.user_ns
    out["names"] = [isinstance(ns[n], jax.Array) for n in ("y",) if n in ns], repr(ns.get("state", {}).get("n"))  # fmt: skip
    out["standing in"] = repr(shell.run_cell("%xjax").error_in_exec)
    out["cell"] = bool(np.allclose(ns["y"], np.tanh(X @ X), atol=1e-5))
    shell.run_cell("%reload_ext xlab")
    with capture_output() as got:
        out["reloaded"] = shell.run_cell("%xstep loss(X, X)").success, got.stdout
    return out


def section_command():
    from xlab.notebook.report_command import main

    with open("beside_model.py", "w") as file:
        file.write(
            "import jax, jax.numpy as jnp, numpy as np\n"
            "def f(x):\n    return jnp.tanh(x) @ x\n"
            "x = np.ones((4, 4), np.float32)\n"
            "def keyed(x, *, key):\n    return x['a'] + jax.random.normal(key, (4,))\n"
            "jitted = jax.jit(f)\njaxpr = jax.make_jaxpr(f)(x)\ntraced = jitted.trace(x)\nlowered = traced.lower()\n"
            "compiled = lowered.compile()\nnamed = jax.jit(keyed).trace({'a': x[0]}, key=jax.random.key(0))\n"
        )
    made = {}
    for name in ("f", "jitted", "jaxpr", "traced", "lowered", "compiled", "named"):
        given = ["--args", "f32[4,4]"] if name in ("f", "jitted", "jaxpr") else []
        out = io.StringIO()
        with redirect_stdout(out):
            code = main([f"beside_model.py:{name}", *given, "--repeat", "2"])
        made[name] = code, out.getvalue()
    with redirect_stdout(io.StringIO()) as out:
        made["check"] = main(["beside_model.py:jaxpr", "--check"]), out.getvalue()
    return made


def section_pages():
    """What the user's program is called reaches a page escaped."""
    f = jax.jit(lambda x: jnp.sin(x))
    p = observe.program(f, X).replace(made_by="<img src=x onerror=alert(1)>")
    return "<img src=x" in to_html(p)


if __name__ == "__main__":
    run_sections(globals().copy())
