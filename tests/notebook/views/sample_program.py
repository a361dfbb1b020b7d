"""The program of the hand-made report: its source, its equations forwards and backwards, its later forms."""

from __future__ import annotations

import itertools

from xlab.observe import records as r

MESH = r.MeshInfo(("data", "model"), (4, 2), tuple(range(8)), "cpu", (0,) * 8, ("Auto", "Auto"))

CODE = """\
def block(params, x):
    h = layer_norm(x, params['ln1'])
    q, k, v = jnp.split(h @ params['qkv'], 3, axis=-1)
    s = jnp.einsum('btd,bsd->bts', q, k) / 8.0
    a = nn.softmax(s)
    x = x + jnp.einsum('bts,bsd->btd', a, v) @ params['proj']
    h = nn.gelu(layer_norm(x, params['ln2']) @ params['up'])
    return x + h @ params['down']

def loss(params, x, y):
    x = x @ params['embed']
    x, _ = lax.scan(lambda x, p: (block(p, x), None), x, params['blocks'])
    logits = x.mean(1) @ params['out']
    return xent(logits, y)

def train_step(params, x, y):
    value, grads = xlab.value_and_grad(loss)(params, x, y)
    grads = lax.pmean(grads, 'data')
    return value, tree.map(lambda p, g: p - 1e-3 * g, params, grads)
""".splitlines()

FILE = "<cell 3>"


def names():
    """Yield a, b, …, z, aa, ab, …"""
    for n in itertools.count(1):
        for letters in itertools.product("abcdefghijklmnopqrstuvwxyz", repeat=n):
            yield "".join(letters)


def source(line: int) -> r.Source:
    """The place of one line of the sample."""
    return r.Source(FILE, line, 4, 40, "train_step", CODE[line - 1])


class Maker:
    """Builds programs with running equation ids, remembering which line and level text each equation has."""

    def __init__(self) -> None:
        self.next_id = 0
        self.hlo: list[tuple[str, tuple[int, ...]]] = [
            ("HloModule jit_train_step, is_scheduled=true", ()),
            ("ENTRY %main {", ()),
        ]
        self.stable: list[tuple[str, tuple[int, ...]]] = [
            ("module @jit_train_step {", ()),
            ('  sdy.mesh @mesh = <["data"=4, "model"=2]>', ()),
        ]

    def equation(
        self, name, primitive, inputs, type_, line, params="", nested=(), labels=(), **more
    ) -> r.Equation:
        """One equation, with its lines in the compiled texts."""
        found = self.next_id
        self.next_id += 1
        out = r.Variable(name, type_)
        shape = ",".join(map(str, type_.shape))
        dims = "x".join(map(str, type_.shape))
        self.stable.append(
            (
                f"    %{found} = stablehlo.{primitive} {', '.join('%' + i for i in inputs)} : tensor<{dims}x{type_.dtype}>",
                (found,),
            )
        )
        if found % 2 == 0:
            self.hlo.append(
                (
                    f'  %{primitive}.{found} = {type_.dtype}[{shape}]{{1,0}} {primitive.replace("_", "-")}({", ".join("%" + i for i in inputs)}), metadata={{op_name="{primitive}"}}',
                    (found,),
                )
            )
        return r.Equation(
            found,
            primitive,
            tuple(inputs),
            (out,),
            params,
            source(line),
            "train_step",
            tuple(nested),
            tuple(labels),
            **more,
        )


def block(m: Maker, backward: bool) -> tuple[r.Equation, ...]:
    """The equations of one transformer block."""
    gen = names()
    first = next(gen)
    steps = [
        ("mul", 2),
        ("reduce_sum", 2),
        ("rsqrt", 2),
        ("mul", 2),
        ("dot_general", 3),
        ("slice", 3),
        ("slice", 3),
        ("dot_general", 4),
        ("div", 4),
        ("reduce_max", 5),
        ("sub", 5),
        ("exp", 5),
        ("reduce_sum", 5),
        ("div", 5),
        ("dot_general", 6),
        ("dot_general", 6),
        ("add", 6),
        ("rsqrt", 7),
        ("mul", 7),
        ("dot_general", 7),
        ("tanh", 7),
        ("mul", 7),
        ("dot_general", 8),
        ("add", 8),
    ]
    if backward:
        steps = [*reversed(steps), *steps[::2]]
    out, last = [], first
    for primitive, line in steps:
        name = next(gen)
        ts = (
            r.Type("f32", (64, 16, 128), (("data",), (), ("model",)))
            if primitive == "dot_general" and line in (3, 7)
            else r.Type("f32", (64, 16, 64), (("data",), (), ()))
        )
        ins = (
            (last, "w")
            if primitive == "dot_general"
            else (last, first)
            if primitive in ("add", "mul", "sub", "div")
            else (last,)
        )
        params = "dimension_numbers=(((2,), (0,)), ((), ()))" if primitive == "dot_general" else ""
        out.append(
            m.equation(
                name,
                primitive,
                ins,
                ts,
                line,
                params,
                rule=f"transpose({primitive})" if backward else None,
            )
        )
        last = name
    return tuple(out)


def program() -> r.Program:
    """The traced step: a scan over 12 layers forward and one backward, then the update."""
    m = Maker()
    f32 = r.Type("f32", (64, 16, 64), (("data",), (), ()))
    x = r.Variable("b", r.Type("f32", (64, 16, 4), (("data",), (), ())), "x")
    y = r.Variable("c", r.Type("i32", (64,), (("data",),)), "y")
    w = r.Variable("a", r.Type("f32", (4, 64), ((), ("model",))), "params['embed']")
    eqs = [
        m.equation(
            "d", "dot_general", ("b", "a"), f32, 11, "dimension_numbers=(((2,), (0,)), ((), ()))"
        )
    ]
    for _label, backward, name in (("forward", False, "e"), ("backward", True, "j")):
        at = m.next_id
        m.next_id += 1
        body = r.Program(
            "body",
            (r.Variable("a", f32), r.Variable("w", r.Type("f32", (64, 192), ((), ("model",))))),
            ("y",),
            (),
            block(m, backward),
        )
        eqs.append(
            r.Equation(
                at,
                "scan",
                ("d", "a"),
                (r.Variable(name, f32),),
                f"length=12 reverse={backward}",
                source(12),
                "train_step",
                (body,),
                ("body",),
            )
        )
        if not backward:
            eqs.append(
                m.equation(
                    "f",
                    "reduce_sum",
                    ("e",),
                    r.Type("f32", (64, 64), (("data",), ())),
                    13,
                    "axes=(1,)",
                )
            )
            eqs.append(
                m.equation(
                    "g", "dot_general", ("f", "a"), r.Type("f32", (64, 10), (("data",), ())), 13
                )
            )
            eqs.append(
                m.equation(
                    "h", "reduce_max", ("g",), r.Type("f32", (64,), (("data",),)), 14, "axes=(1,)"
                )
            )
            eqs.append(m.equation("i", "log", ("h",), r.Type("f32", (64,), (("data",),)), 14))
    eqs.append(
        m.equation(
            "k",
            "psum",
            ("j",),
            r.Type("f32", (64, 192), ((), ("model",))),
            18,
            "axes=('data',)",
            axes=("data",),
        )
    )
    eqs.append(
        m.equation("l", "mul", ("k", "0.001:f32[]"), r.Type("f32", (64, 192), ((), ("model",))), 19)
    )
    eqs.append(m.equation("m", "sub", ("a", "l"), r.Type("f32", (64, 192), ((), ("model",))), 19))

    def level(name, lines):
        return r.Level(
            name,
            "\n".join(t for t, _ in lines),
            tuple((i + 1, ids) for i, (_, ids) in enumerate(lines) if ids),
        )

    heat = tuple(
        (e.id, 3.0 + 37 * (e.primitive == "dot_general") + (e.id * 7) % 5)
        for p in (r.Program("x", equations=tuple(eqs)),)
        for e, _ in p.walk()
        if not e.nested
    )
    return r.Program(
        "train_step",
        (w, x, y),
        ("i", "m"),
        (),
        tuple(eqs),
        (r.Listing(FILE, 1, tuple(CODE), "cell 3"),),
        MESH,
        (level("stablehlo", m.stable), level("propagated", m.stable), level("optimized", m.hlo)),
        heat,
    )
