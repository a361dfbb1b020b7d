"""Samples of `lax`: reductions by any operation, over axes and over windows."""

from __future__ import annotations

import numpy as np

from tests.reference.data import BF16, EDGES, bools, floats, ints
from tests.reference.sample import ALL, VALUE, WHOLE, Sample

FORWARD = ("eager", "jit", "jvp", "vmap")
SHOWN = (*ALL, "text")


def window(op, init, *args, **kwargs):
    """`reduce_window` by an operation of `lax`."""
    return lambda n, x: n.lax.reduce_window(x, init, getattr(n.lax, op), *args, **kwargs)


X = np.float32(np.random.RandomState(0).permutation(30).reshape(6, 5))   # no ties
GEOMETRY = {
    "valid": ((2, 2), (1, 2), "VALID"), "same": ((2, 3), (1, 2), "SAME"), "same_lower": ((2, 3), (2, 2), "SAME_LOWER"),
    "explicit": ((3, 2), (2, 1), ((1, 2), (0, 1))), "cut": ((2, 2), (1, 1), ((-1, 0), (0, -1))),
    "steps_of_one": ((2, 2),), "too_large": ((9, 2), (1, 1), "VALID"),
}
DILATED = {"base": {"base_dilation": (2, 1)}, "window": {"window_dilation": (2, 3)},
           "both": {"base_dilation": (2, 3), "window_dilation": (3, 1)}}
# The reference has no reverse mode for dilated windows, and its forward mode ends there; ours is held to the laws.
WINDOWS = [
    *(Sample(f"window_{op}_{name}", window(op, init, *geometry), [X],
             WHOLE if name == "too_large" else (*WHOLE, "jvp", "text") if name == "cut" else SHOWN, smooth=False)
      for op, init in (("add", 0.0), ("max", -np.inf), ("min", np.inf)) for name, geometry in GEOMETRY.items()),
    *(Sample(f"window_{op}_dilated_{name}", window(op, init, (2, 2), (1, 2), "SAME", **dilation), [X],
             ALL if op == "add" or name == "base" else FORWARD, smooth=False)
      for op, init in (("add", 0.0), ("max", -np.inf)) for name, dilation in DILATED.items()),
    *(Sample(f"window_same_of_spread_{i}", window("add", 0.0, size, step, padding, base_dilation=base, window_dilation=spread),
             [floats(*shape)]) for i, (shape, size, step, padding, base, spread) in enumerate((
                 ((6, 5), (2, 3), (2, 2), "SAME", (2, 1), (1, 2)), ((6, 5), (2, 3), (2, 2), "SAME_LOWER", (2, 1), (1, 2)),
                 ((6,), (2,), (2,), "SAME", (2,), (1,)), ((6,), (3,), (2,), "SAME", (3,), (2,))))),
    *(Sample(f"window_{op}_int", window(op, np.int32(init), (3,), (2,), "SAME"), [ints(8)], (*WHOLE, "text"))
      for op, init in (("add", 0), ("mul", 1), ("max", -2**31), ("min", 2**31 - 1))),
    Sample("window_add_bfloat16", window("add", 0.0, (3,), (1,), "SAME"), [floats(8, dtype=BF16)]),
    Sample("window_max_bfloat16", window("max", -np.inf, (3,), (1,), "SAME"), [floats(8, dtype=BF16)]),
    Sample("window_max_edges", window("max", -np.inf, (2,), (1,), "SAME"), [EDGES], WHOLE),
    Sample("window_max_ties", window("max", -np.inf, (3,), (1,), "SAME"), [np.float32([1, 3, 3, 2, 3])], smooth=False,
           lawful=False),
    Sample("window_or", window("bitwise_or", False, (2,), (1,), "SAME"), [bools(6)], (*WHOLE, "text")),
    Sample("window_weak_scalar", lambda n: n.lax.reduce_window(2.0 * n.jnp.asarray(1.0), 0.0, n.lax.add, ()), [], VALUE),
    Sample("window_add_from_one", window("add", 1.0, (2, 2), (1, 2), "VALID"), [X], ("eager", "jit", "vmap", "text")),
    Sample("window_mul", window("mul", 1.0, (2, 2), (1, 2), "SAME"), [floats(4, 5, low=0.5)],
           ("eager", "jit", "jvp", "vmap", "text"), smooth=False),
    Sample("window_numpy_function", lambda n, x: n.lax.reduce_window(x, -np.inf, n.jnp.maximum, (2, 2), (1, 2), "SAME"), [X],
           ("eager", "jit", "vmap")),
    Sample("window_pairs", lambda n, x, y: n.lax.reduce_window(
        (x, y), (0.0, np.int32(0)), lambda a, b: (a[0] + b[0], a[1] + b[1]), (2, 2), (1, 2), "SAME"), [X, ints(6, 5)],
        ("eager", "jit", "vmap", "text")),
    Sample("window_initial_value", lambda n, x, i: n.lax.reduce_window(x, i, n.lax.add, (2,), (1,), "SAME"),
           [floats(5), np.float32(0)], ("eager", "jit", "text")),
    Sample("window_x64", window("max", -np.inf, (2,), (1,), "SAME"), [floats(5, dtype=np.float64)], x64=True, smooth=False),
    *(Sample(f"window_second_order_{op}", lambda n, x, op=op, init=init: n.lax.sin(
        n.lax.reduce_window(n.lax.mul(x, x), init, getattr(n.lax, op), (2,), (2,), "SAME")), [floats(6)],
        ("grad.grad", "jvp.grad", "grad.jvp", "vmap.grad", "jit.grad"))
      for op, init in (("add", 0.0), ("max", -np.inf))),
    Sample("window_shape_tuple", lambda n: n.lax.reduce_window_shape_tuple(
        (6, 5), (2, 2), (1, 2), ((0, 1), (0, 1)), (2, 1), (1, 2)), [], ("eager",)),
    *(Sample(f"padtype_{kind}", lambda n, kind=kind: n.lax.padtype_to_pads((7, 8, 1), (3, 2, 5), (2, 3, 1), kind), [],
             ("eager",)) for kind in ("SAME", "SAME_LOWER", "VALID")),
]

REDUCE = [
    *(Sample(f"reduce_{op}", lambda n, x, op=op, init=init: n.lax.reduce(x, init, getattr(n.lax, op), (0,)),
             [floats(3, 4, low=0.5)], ("eager", "jit", "vmap", "grad", "jvp", "text"), smooth=False)
      for op, init in (("add", 0.0), ("mul", 1.0), ("max", -np.inf), ("min", np.inf))),
    *(Sample(f"reduce_{op}", lambda n, x, op=op, init=init: n.lax.reduce(x, init, getattr(n.lax, op), (0, 1)),
             [bools(3, 4)], (*WHOLE, "text"))
      for op, init in (("bitwise_and", True), ("bitwise_or", False), ("bitwise_xor", False))),
    Sample("reduce_add_from_one", lambda n, x: n.lax.reduce(x, 1.0, n.lax.add, (1,)), [floats(3, 4)],
           ("eager", "jit", "vmap", "primitives")),
    Sample("reduce_function", lambda n, x: n.lax.reduce(x, 0.0, lambda a, b: n.lax.log(n.lax.exp(a) + n.lax.exp(b) - 1),
                                                        (1,)), [floats(3, 5, low=0.1)],
           ("eager", "jit", "vmap", "primitives", "grad", "jvp"), smooth=False),
    Sample("reduce_pairs", lambda n, x, y: n.lax.reduce(
        {"a": x, "b": y}, {"a": -np.inf, "b": np.int32(0)},
        lambda u, v: {"a": n.lax.max(u["a"], v["a"]), "b": u["b"] | v["b"]}, (0, 2)), [floats(2, 3, 4), ints(2, 3, 4)],
        ("eager", "jit", "vmap", "primitives")),
    Sample("reduce_initial_value", lambda n, x, i: n.lax.reduce(x, i, n.lax.mul, (0,)), [floats(4), np.float32(2)],
           ("eager", "jit", "primitives")),
    Sample("reduce_nothing", lambda n, x: n.lax.reduce(x, 3.0, n.lax.add, (0,)), [floats(0, 3)], WHOLE),
    Sample("reduce_no_axes", lambda n, x: n.lax.reduce(x, 3.0, n.lax.add, ()), [floats(2)], WHOLE),
]


def bad(name, error, *args, operand=None, **kwargs):
    call = lambda n, x: n.lax.reduce_window(x, *args[:1], getattr(n.lax, args[1]), *args[2:], **kwargs)
    return Sample(f"window_bad_{name}", call, [X if operand is None else operand], error=error)


ERRORS = [
    bad("init_dtype", "TypeError", 1, "add", (2, 2)),
    bad("init_shape", "TypeError", np.zeros(2, np.float32), "add", (2, 2)),
    bad("rank", "TypeError", 0.0, "add", (2,)),
    bad("strides", "TypeError", 0.0, "add", (2, 2), (1,)),
    bad("stride_zero", "TypeError", 0.0, "add", (2, 2), (0, 1)),
    bad("window_zero", "TypeError", 0.0, "add", (0, 2)),
    bad("window_negative", "TypeError", 0.0, "add", (-1, 2)),
    bad("padding", "RuntimeError", 0.0, "add", (2, 2), (1, 1), "FULL"),
    bad("padding_rank", "ValueError", 0.0, "add", (2, 2), (1, 1), [(0, 0)]),
    bad("base_dilation", "TypeError", 0.0, "add", (2, 2), base_dilation=(0, 1)),
    bad("window_dilation", "TypeError", 0.0, "add", (2, 2), window_dilation=(0, 1)),
    bad("bool", "TypeError", False, "add", (2,), operand=bools(4)),
    Sample("window_bad_trees", lambda n, x: n.lax.reduce_window((x, x), (0.0,), n.lax.add, (2, 2)), [X], error="ValueError"),
    Sample("window_bad_empty", lambda n: n.lax.reduce_window((), (), n.lax.add, (2, 2)), [], error="ValueError"),
    Sample("window_bad_shapes", lambda n, x: n.lax.reduce_window((x, x[0]), (0.0, 0.0), lambda a, b: a, (2, 2)), [X],
           error="ValueError"),
    Sample("window_bad_result", lambda n, x: n.lax.reduce_window(x, 0.0, n.lax.gt, (2, 2)), [X], error="ValueError"),
    Sample("reduce_bad_axis", lambda n, x: n.lax.reduce(x, 0.0, n.lax.add, (7,)), [X], error="ValueError"),
    Sample("reduce_bad_negative", lambda n, x: n.lax.reduce(x, 0.0, n.lax.add, (-1,)), [X], error="ValueError"),
    Sample("reduce_bad_twice", lambda n, x: n.lax.reduce(x, 0.0, n.lax.add, (0, 0)), [X], error="ValueError"),
    Sample("reduce_bad_trees", lambda n, x: n.lax.reduce((x, x), (0.0,), n.lax.add, (0,)), [X], error="ValueError"),
    Sample("reduce_bad_result", lambda n, x: n.lax.reduce(x, 0.0, n.lax.gt, (0,)), [X], error="ValueError"),
]

SAMPLES = [*WINDOWS, *REDUCE, *ERRORS]

# Where the reference stops: reverse mode of dilated maxima and of any operation, held to the laws alone.
BEYOND = [
    Sample("window_mul", window("mul", 1.0, (2, 2), (1, 2), "SAME"), [floats(4, 5, low=0.5)], smooth=False),
    Sample("window_max_dilated", window("max", -np.inf, (2, 2), (1, 2), "SAME", window_dilation=(2, 3)), [X], smooth=False),
    Sample("window_pairs", lambda n, x, y: n.lax.reduce_window(
        (x, y), (0.0, 0.0), lambda a, b: (a[0] + b[0], a[1] * a[0] + b[1]), (2, 2), (1, 2), "SAME"), [X, X[::-1].copy()],
        smooth=False),
    Sample("window_initial_value", lambda n, x, i: n.lax.reduce_window(
        x, i, lambda a, b: a + b - 0.5, (2,), (1,), "SAME"), [floats(5), np.float32(0.5)]),
    Sample("window_max_cut", window("max", -np.inf, *GEOMETRY["cut"]), [X], smooth=False),
    Sample("reduce_initial_value", lambda n, x, i: n.lax.reduce(x, i, n.lax.mul, (0,)), [floats(4), np.float32(2)]),
    Sample("reduce_closure", lambda n, x, c: n.lax.reduce(x, np.float32(0), lambda a, b: a + b - c, (0,)),
           [floats(4), np.float32(2)], ("jit", "vmap", "grad"), smooth=False),
    *(Sample(f"window_scalar_{op}", window(op, init, ()), [np.float32(3)], smooth=False)   # the reference's compiler ends here
      for op, init in (("add", 0.0), ("max", -np.inf), ("mul", 1.0))),
    Sample("window_closure", lambda n, x, c: n.lax.reduce_window(x, np.float32(0), lambda a, b: a + b - c, (2,)),
           [floats(4), np.float32(2)], ("jit", "vmap", "grad"), smooth=False),
]
