"""What dispatch does, asked of either runtime: values and types of eager operations, stages that run, equations of `device_put`, errors.

Imports neither package: `records(module)` takes `xlab` or the reference, so that both answer the same questions. As a program: `dispatch_cases.py MODULE`.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings

import numpy as np

STAGES = {"jaxpr_trace_duration": "T", "jaxpr_to_mlir_module_duration": "L", "backend_compile_duration": "C"}  # fmt: skip
F = np.array([0.5, 1.25, -2.0], np.float32)
I = np.array([3, -7, 2], np.int32)


def operations(lax) -> dict:
    """Primitives of one to three operands, on floats and integers, with NumPy, Python and mixed operands."""
    one = ["abs", "neg", "sign", "square"]
    floats = ["sin", "cos", "exp", "tanh", "floor", "ceil", "round", "is_finite", "logistic", "erf", "cbrt"]  # fmt: skip
    two = ["add", "sub", "mul", "max", "min", "div", "rem", "eq", "lt", "ge"]
    ops = {f"{n} {k}": (getattr(lax, n), x) for n in one for k, x in (("f32", F), ("i32", I))}
    ops |= {f"{n} f32": (getattr(lax, n), F) for n in floats}
    ops |= {f"{n} {k}": (getattr(lax, n), x, x[::-1].copy()) for n in two for k, x in (("f32", F), ("i32", I))}  # fmt: skip
    ops |= {f"{n} Python": (getattr(lax, n), 0.5) for n in ("sin", "neg", "exp")}
    ops |= {
        "neg int": (lax.neg, 3),
        "add weak": (lax.add, 2.0, 0.5),
        "mul of a scalar": (lax.mul, F, 2.0),
        "sin f16": (lax.sin, F.astype(np.float16)),
        "neg i8": (lax.neg, I.astype(np.int8)),
        "sin f64": (lax.sin, F.astype(np.float64)),
        "neg i64": (lax.neg, I.astype(np.int64)),
        "not bool": (lax.bitwise_not, np.array([True, False])),
        "top_k": (lambda x: lax.top_k(x, 2), F),
        "sort of two": (lambda x, y: lax.sort((x, y), num_keys=1), F, I),
    }
    return ops


def _says(f) -> str:
    """The beginning of what an unfinished primitive's error says."""
    try:
        f()
    except NotImplementedError as e:
        return str(e).split(":")[0]
    return "runs"


def _deleted(x):
    x.delete()
    return x


class World:
    """One of the two runtimes, and what its cases share."""

    def __init__(self, module: str):
        self.rt = rt = importlib.import_module(module)
        self.lax = rt.lax
        importlib.import_module(f"{module}.monitoring")
        self.core = importlib.import_module(f"{module}.extend.core")
        self.layout = importlib.import_module(f"{module}.experimental.layout")
        self.d = d = rt.devices()
        s = rt.sharding
        mesh = lambda devices: s.Mesh(np.array(devices), ("x",))
        named = lambda devices: s.NamedSharding(mesh(devices), s.PartitionSpec("x"))
        self.line, self.back, self.four = named(d), named(d[::-1]), named(d[:4])
        self.host = s.NamedSharding(mesh(d), s.PartitionSpec("x"), memory_kind="pinned_host")
        self.one = lambda i: s.SingleDeviceSharding(d[i])
        self.copies = s.NamedSharding(mesh(d), s.PartitionSpec())
        form = lambda *o: self.layout.Format(self.layout.Layout(o) if o else None, self.one(0))
        self.column, self.rows, self.plain = form(1, 0), form(0, 1), form()
        self.stages: list = []
        rt.monitoring.register_event_time_span_listener(self._heard)

    def _heard(self, event, start, end, **kw):
        stage = STAGES.get(event.rsplit("/", 1)[1])
        if stage:
            self.stages.append(f"{stage} {kw['fun_name']}")

    def ran(self, *calls) -> list:
        """The stages that each of these calls runs."""
        found = []
        for call in calls:
            self.stages.clear()
            call()
            found.append(list(self.stages))
        return found

    def record(self, x):
        if isinstance(x, tuple | list):
            return [self.record(v) for v in x]
        if not isinstance(x, self.rt.Array):
            return str(x)
        return {
            "type": f"{x.dtype}{list(x.shape)}{'~' if x.weak_type else ''}",
            "values": np.asarray(x).astype(np.float64).round(5).tolist(),
            "committed": bool(x.committed),
            "devices": sorted(q.id for q in x.devices()),
            "memory": x.sharding.memory_kind,
        }

    def equations(self, f, *args) -> list:
        """Primitive, types of results and parameters of each equation."""
        closed = self.rt.make_jaxpr(f)(*args)
        return [
            (str(e.primitive), [str(v.aval) for v in e.outvars], {k: str(p) for k, p in sorted(e.params.items())})
            for e in closed.jaxpr.eqns
        ]  # fmt: skip


def cases(w: World) -> dict:
    rt, lax, d = w.rt, w.lax, w.d
    put, x8 = rt.device_put, np.arange(8, dtype=np.float32)
    named = {f"D4 {name}": lambda op=op: op[0](*op[1:]) for name, op in operations(lax).items()}

    def eager():
        rt.clear_caches()
        x = rt.numpy.asarray(x8)
        there = put(x8, d[1])
        return w.ran(lambda: lax.sin(x), lambda: lax.sin(there), lambda: (lax.sin(x), lax.sin(there), lax.sin(x8)))  # fmt: skip

    def meshes():
        a, b = put(x8, w.line), put(x8, w.back)
        lax.sin(a)
        return w.ran(lambda: lax.sin(b), lambda: (lax.sin(a), lax.sin(b)))

    def f(x):
        return lax.mul(lax.sin(x), x)

    jitted = rt.jit(f)
    nested = rt.jit(lambda x: rt.jit(lambda y: y * 5)(x) + 1)
    unused = rt.jit(lambda x, y: x * 2)
    ahead = lambda: [c := rt.jit(lambda v: f(v) + 1).lower(x8), c.compile(), c.compile()]

    def disabled():
        rt.clear_caches()
        with rt.disable_jit():
            return w.ran(lambda: lax.cos(x8))

    toys = {n: w.core.Primitive(n) for n in ("toy_types", "toy_lowering")}
    toys["toy_lowering"].def_abstract_eval(lambda a: a)
    interpreters = importlib.import_module(f"{rt.__name__}.interpreters.ad")

    def words():
        """How the error of each missing rule begins, in the order in which they are met."""
        step, run = w.core.Primitive("step"), lambda: w.core.Primitive("other").bind(1.0)
        traced = lambda: rt.jit(lambda v: step.bind(v))(1.0)
        found = [_says(run), _says(traced)]
        step.def_impl(lambda v: v)
        step.def_abstract_eval(lambda v: v)
        forward = lambda: rt.jvp(step.bind, (1.0,), (1.0,))
        batched = lambda: rt.vmap(step.bind)(np.ones(3, np.float32))
        found += [
            _says(traced),
            _says(forward),
            _says(lambda: rt.grad(step.bind)(1.0)),
            _says(batched),
        ]
        interpreters.primitive_jvps[step] = lambda p, t: (step.bind(*p), step.bind(*t))
        return [*found, _says(lambda: rt.grad(step.bind)(1.0))]

    at = lambda i: put(x8, d[i])
    placed = lambda a: [(s.device.id, str(s.index), np.asarray(s.data).tolist()) for s in a.addressable_shards]  # fmt: skip
    order = lambda a: a.format.layout.major_to_minor

    def in_default():
        with rt.default_device(d[4]):
            return [put(x8), put(put(x8, d[1]))]

    masked = np.ma.array([1.0, 2.0], mask=[0, 1])
    h = rt.memory.Space.Host
    column = w.layout.Format(w.layout.Layout((0,)), w.one(1))
    double = lambda v: put(v, d[1], donate=True)
    transposed = lambda g, *like: rt.linear_transpose(g, *like)
    y = np.ones((3, 4), np.float32)
    named |= {
        "D4 stages": lambda: w.ran(lambda: lax.tan(x8), lambda: lax.tan(x8)),
        "D7 follows": lambda: put(x8, d[3]) + rt.numpy.asarray(x8),
        "D7 clash": lambda: put(x8, d[0]) + put(x8, d[1]),
        "D8": disabled,
        "D9 types": lambda: rt.jit(lambda v: toys["toy_types"].bind(v))(x8),
        "D9 none": lambda: toys["toy_types"].bind(x8),
        "D9 lowering": lambda: rt.jit(lambda v: toys["toy_lowering"].bind(v))(x8),
        "D9 parameter": lambda: lax.sin_p.bind(x8, bogus=1),
        "D9 operand": lambda: lax.add(x8, "hi"),
        "D9 words": lambda: " | ".join(words()),
        "D9 masked": lambda: lax.sin(masked),
        "D9 masked asarray": lambda: rt.numpy.asarray(masked),
        "D9 masked put": lambda: put(masked),
        "D10 one device": eager,
        "D10 meshes": meshes,
        "D15": lambda: rt.jit(lambda a, b: (b, a, 1, True))(put(x8, d[3]), 3),
        "D37 jit": lambda: w.ran(lambda: jitted(x8), lambda: jitted(x8), lambda: jitted(x8[:3])),
        "D37 nested": lambda: w.ran(lambda: nested(x8)),
        "D37 unused": lambda: w.ran(lambda: unused(x8, x8), lambda: unused(x8, x8[:2])),
        "D37 ahead": lambda: w.ran(ahead),
        "D37 shape alone": lambda: w.ran(lambda: rt.eval_shape(lambda v: v * 7, x8)),
        "D37 put": lambda: w.ran(lambda: put(x8, d[1])),
        "D54 two": lambda: w.equations(lambda a, b: put((a, b), (d[1], d[2])), x8, x8),
        "D54 copy": lambda: w.equations(lambda a: put(a, d[1], may_alias=False), x8),
        "D54 donate": lambda: w.equations(lambda a: put([a, a], d[1], donate=[True, False]), x8),
        "D58 default": in_default,
        "D58 copy": lambda: [(c := put(at(0), may_alias=False)).committed, c is at(0), put(c) is c],
        "D58 copy of a free one": lambda: put(rt.numpy.asarray(x8), may_alias=False),
        "D59": lambda: [put(v, d[2]) for v in (x8, rt.numpy.asarray(x8), at(1), at(2), put(x8, w.line))],
        "D60": lambda: [placed(put(v, s)) for v in (x8, at(1), put(x8, w.line)) for s in (w.line, w.back, w.four, w.one(3))],
        "D60 itself": lambda: (c := put(x8, w.line)) is put(c, c.sharding),
        "D62 gone": lambda: put(_deleted(put(x8, w.line)), w.back),
        "D64": lambda: [put(x8, w.one(1).with_memory_kind(k)) for k in ("device", "unpinned_host")],
        "D64 bogus": lambda: put(x8, w.one(1).with_memory_kind("bogus")),
        "D65": lambda: [order(put(y, w.column)), order(put(put(y, w.column), w.rows)), order(put(put(y, w.column), w.plain))],
        "D65 itself": lambda: (c := put(y, w.column)) is put(c, c.format),
        "D68": lambda: [put(3.0, w.copies), placed(put(rt.random.key_data(rt.random.split(rt.random.key(0), 8)), w.line))],
        "D71": lambda: [w.equations(lambda a, t=t: put(a, t), x8) for t in (None, d[1], w.line, w.one(1), h, w.host)],
        "D71 format": lambda: w.equations(lambda a: put(a, column), x8)[0][1],
        "D72": lambda: [len(w.equations(g)) for g in (lambda: put(x8), lambda: put(x8, d[1]), lambda: put(x8, may_alias=False))],
        "D73": lambda: w.equations(lambda a, t: rt.jvp(lambda v: put(v, d[1]), (a,), (t,)), x8, x8),
        "D74": lambda: w.equations(transposed(lambda v: put(v, d[1]), x8), x8),
        "D74 source": lambda: w.equations(transposed(lambda v: put(v, d[1], src=d[2]), x8), x8),
        "D74 zero": lambda: w.equations(transposed(lambda a, b: put((a, b), (d[1], d[2]))[1], x8, x8), x8),
        "D74 home": lambda: rt.grad(lambda v: put(v, d[1]).sum())(put(x8, d[2])),
        "D74 donate": lambda: rt.grad(lambda v: double(v).sum())(x8),
        "D75": lambda: w.equations(rt.vmap(lambda v: put(v, d[1]), in_axes=1, out_axes=1), y),
        "D75 alone": lambda: [e[0] for e in w.equations(rt.vmap(lambda a, b: put((a, b)), (0, None)), y, y)],
        "D76": lambda: "stablehlo." in rt.jit(lambda v: put(v, d[3])).lower(x8).as_text(),
    }  # fmt: skip
    numbers = {"int": 1, "float": 1.0, "complex": 1j, "bool": True, "i64": np.int64(3), "f64": np.float64(3), "array": x8.astype(np.float64)}  # fmt: skip
    for name, v in numbers.items():
        named[f"D34 {name}"] = lambda v=v: [str(put(v).dtype), put(v).weak_type]
    return named


def records(module: str) -> dict:
    """What `module` gives for each case, or the builtin class of its error."""
    w = World(module)
    out = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, case in cases(w).items():
            try:
                out[name] = w.record(case()) if name[:3] != "D37" else case()
            except Exception as e:
                out[name] = next(c.__name__ for c in type(e).__mro__ if c.__module__ == "builtins")
    return json.loads(json.dumps(out))


if __name__ == "__main__":
    print("RECORDS " + json.dumps(records(sys.argv[1])))
