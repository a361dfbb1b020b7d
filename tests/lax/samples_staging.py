"""Samples of `lax`: code by platform, named operations, tokens, values that are kept, positions along several axes."""

from __future__ import annotations

import numpy as np

from tests.reference.data import floats
from tests.reference.sample import ALL, Sample

LAWS = False        # compared with the reference alone
TEXT = (*ALL, "text")
X = floats(2, 3)


def by_platform(n, x):
    return n.lax.platform_dependent(x, cpu=lambda x: n.lax.sin(x), tpu=lambda x: x * 2, default=lambda x: x - 3)


def square(n, x, **attributes):
    return n.lax.composite(lambda x, *, by=1, **_: x * x * by, name="my.square", version=2)(x, **attributes)


def sunk(n, x):
    n.lax.dce_sink({"a": n.lax.sin(x), "b": x})
    return x * 2


def taken(axes, *positions):
    return lambda n, x: n.lax.index_take(x, tuple(map(np.int32, positions)), axes)


SAMPLES = [
    Sample("platform", by_platform, [X], TEXT),
    Sample("platform_default", lambda n, x: n.lax.platform_dependent(x, cuda=lambda x: x * 3, default=lambda x: x * 2), [X], ALL),
    Sample("platform_closure", lambda n, x: n.lax.platform_dependent(cpu=lambda: x * 2, default=lambda: x + 1), [X], ALL),
    Sample("platform_missing", lambda n, x: n.lax.platform_dependent(x, tpu=lambda x: x), [X], error="NotImplementedError"),
    Sample("platform_gpu", lambda n, x: n.lax.platform_dependent(x, gpu=lambda x: x), [X], error="ValueError"),
    Sample("platform_none", lambda n, x: n.lax.platform_dependent(x), [X], error="NotImplementedError"),
    *(Sample(f"platform_{what}", lambda n, x, f=f: n.jax.jit(lambda x: n.lax.platform_dependent(x, cpu=lambda x: x, default=f))(x), [X],
             error="TypeError") for what, f in (("trees", lambda x: (x, x)), ("types", lambda x: x.astype(int)))),
    Sample("composite", square, [X], ("eager", "jit")),
    Sample("composite_attributes", lambda n, x: square(n, x, by=np.float32(3), b=True, c="hi", d=(1, 2), e=None, f=2.5, g=np.arange(3)), [X],
           ("eager", "jit")),
    Sample("composite_text", lambda n, x: n.lax.composite(lambda x, *, by: (x * by, x), name="my.two")(x, by=3), [X], ("text",)),
    Sample("composite_array", lambda n, x: square(n, x, by=x), [X], ("eager",)),
    Sample("composite_tree", lambda n, x: n.lax.composite(lambda x: {"a": x["b"] * 2}, name="my.tree")({"b": x}), [X], ("eager", "jit")),
    Sample("composite_consts", lambda n, x: n.lax.composite(lambda x: x + np.arange(3.), name="my.x")(x), [X], ("eager", "jit")),
    Sample("composite_tracer", lambda n, x: n.jax.jit(lambda x: n.lax.composite(lambda: x, name="my.x")())(x), [X],
           error="UnexpectedTracerError"),
    Sample("composite_attribute_tracer", lambda n, x: n.jax.jit(lambda x: square(n, x, by=x))(x), [X], error="UnexpectedTracerError"),
    Sample("composite_jvp", lambda n, x: n.jax.jvp(lambda x: square(n, x), (x,), (x,)), [X], error="ValueError"),
    Sample("composite_vmap", lambda n, x: n.jax.vmap(lambda x: square(n, x))(x), [X], error="NotImplementedError"),
    Sample("tokens", lambda n, x: str(n.jax.make_jaxpr(lambda: n.lax.after_all(n.lax.create_token(), n.lax.create_token()))()), [X],
           ("eager",)),
    Sample("tokens_run", lambda n, x: type(n.jax.jit(n.lax.after_all)(n.lax.create_token())).__name__, [X], ("eager",)),
    Sample("tokens_eager", lambda n, x: [type(n.lax.after_all()).__name__, type(n.lax.after_all(n.lax.create_token(x))).__name__], [X],
           ("eager",)),
    Sample("after_all_arrays", lambda n, x: n.lax.after_all(x), [X], error="TypeError"),
    Sample("dce_sink", sunk, [X], TEXT),
    Sample("dce_sink_jvp", lambda n, x: n.jax.jvp(lambda x: sunk(n, x), (x,), (x,)), [X], ("text",)),
    Sample("dce_sink_wrong", lambda n, x: n.lax.dce_sink("text"), [X], error="TypeError"),
    Sample("stage", lambda n, x: (n.lax.stage(x), n.lax.stage(2.0), n.lax.stage(np.int8(3)), n.lax.stage(np.arange(3))), [X], TEXT),
    Sample("stage_wrong", lambda n, x: n.lax.stage([1, 2]), [X], error="TypeError"),
    Sample("index_take", taken((0,), [1, 0, -1]), [floats(2, 3, 4)], ALL),
    Sample("index_take_two", taken((0, 2), [1, 0, -1], [0, 7, -2]), [floats(2, 3, 4)], ALL),
    Sample("index_take_count", taken((0,), [1], [0]), [X], error="TypeError"),
    Sample("index_take_sizes", taken((0, 1), [1, 0], [0]), [X], error="TypeError"),
    Sample("index_take_floats", lambda n, x: n.lax.index_take(x, (np.float32([0]),), (0,)), [X], error="ValueError"),
    Sample("index_take_axis", taken((3,), [1]), [X], error="IndexError"),
    Sample("index_take_none", taken(()), [X], error="ValueError"),
]

ACCURATE = ("cbrt", "cos", "exp", "exp2", "expm1", "log", "log1p", "logistic", "rsqrt", "sin", "sqrt", "tan", "tanh")
SAMPLES += [
    *(Sample(f"accuracy_{name}_{how}", lambda n, x, name=name, accuracy=accuracy: getattr(n.lax, name)(x * x + 0.5, accuracy=accuracy(n)), [X],
             kinds, tol=2e-3)
      for name in ACCURATE for how, accuracy, kinds in (
          ("tolerance", lambda n: n.lax.Tolerance(atol=1e-4, ulps=2), ("eager", "grad")), ("highest", lambda n: n.lax.AccuracyMode.HIGHEST, TEXT),
          ("default", lambda n: n.lax.AccuracyMode.DEFAULT, ("text",)))),
    Sample("accuracy_wrong", lambda n, x: n.lax.exp(x, accuracy=3), [X], error="NotImplementedError"),
    Sample("accuracy_nothing", lambda n, x: n.lax.Tolerance(), [X], error="ValueError"),
]
