"""Samples of what the reference types but cannot run on CPU: `ragged_all_to_all`, `psend` and `precv`. Values: `tests/lax/collectives`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from tests.parallel.samples import along, grid
from tests.reference.data import BF16, floats
from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
ROWS, PLACES = floats(64, 3), np.zeros(64, np.int32)
ARGS = [ROWS, ROWS, *[PLACES] * 4]
VECTORS = ("input_offsets", "send_sizes", "output_offsets", "recv_sizes")
RING = [(i, (i + 1) % 8) for i in range(8)]
WRITTEN, CALLS = ("text", "primitives"), ("eager", "jit")


def exchanged(n, *xs, axis="d", **options):
    return n.lax.ragged_all_to_all(*xs, axis_name=axis, **options)


def passed(n, x, axis="d", perm=RING):
    return n.lax.precv(n.lax.psend(x, axis, perm), n.jax.ShapeDtypeStruct(x.shape, x.dtype), axis, perm)


def sent(n, x):
    n.lax.psend([x, x * 2], "d", RING)
    return x



def changed(**new):
    return list({**dict(zip(("operand", "output", *VECTORS), ARGS)), **new}.values())


TYPES = [
    Sample("ragged", along(exchanged), ARGS, ("primitives",)),
    Sample("ragged_unchecked", along(exchanged, check_vma=False), ARGS, WRITTEN),
    Sample("ragged_groups", along(partial(exchanged, axis_index_groups=[[0, 2, 4, 6], [1, 3, 5, 7]]), check_vma=False), ARGS, WRITTEN),
    Sample("ragged_tuple", along(partial(exchanged, axis=("d",)), check_vma=False), ARGS, WRITTEN),
    Sample("ragged_bfloat16", along(exchanged, check_vma=False), changed(operand=ROWS.astype(BF16), output=ROWS.astype(BF16)), WRITTEN),
    Sample("ragged_two_axes", grid(partial(exchanged, axis=("model", "data")), [(("data", "model"),)] * 6, (("data", "model"),)), ARGS, ("primitives",)),
    Sample("ragged_one_of_two", grid(partial(exchanged, axis="data"), [(("data", "model"),)] * 6, (("data", "model"),)), ARGS, ("primitives",)),
    Sample("ragged_jvp", lambda n, *xs: n.jax.jvp(lambda x, y: along(exchanged)(n, x, y, *xs[2:]), xs[:2], xs[:2]), ARGS, ("primitives",)),
    Sample("ragged_vmap", lambda n, *xs: n.jax.vmap(partial(along(exchanged), n))(*xs), [np.stack([x, x]) for x in ARGS], ("primitives",)),
    Sample("psend", along(sent), [ROWS], ("primitives",)),
    Sample("psend_unchecked", along(sent, check_vma=False), [ROWS], ("primitives",)),
    Sample("precv_unchecked", along(passed, check_vma=False), [ROWS], WRITTEN),
    Sample("precv_one_of_two", grid(partial(passed, axis="data", perm=RING[:3]), [(("data", "model"),)], (("data", "model"),), check_vma=False), [ROWS],
           ("primitives",)),
]

ERRORS = [
    *(Sample(f"ragged_float_{v}", along(exchanged), changed(**{v: PLACES.astype(np.float32)}), CALLS, error="ValueError") for v in VECTORS),
    *(Sample(f"ragged_rank_{v}", along(exchanged), changed(**{v: PLACES[:, None]}), CALLS, error="ValueError") for v in VECTORS),
    *(Sample(f"ragged_empty_{v}", along(exchanged), changed(**{v: PLACES[:0]}), CALLS, error="ValueError") for v in VECTORS),
    Sample("ragged_unmapped", partial(exchanged, axis="nope"), ARGS, ("eager",), error="RuntimeError"),
    Sample("ragged_unbound", partial(exchanged, axis="nope"), ARGS, ("jit",), error="NameError"),
    Sample("ragged_list", along(lambda n, *xs: exchanged(n, list(xs[:1]), *xs[1:])), ARGS, CALLS, error="TypeError"),
    Sample("ragged_vmap_groups", lambda n, *xs: n.jax.vmap(partial(along(partial(exchanged, axis_index_groups=[[0, 1, 2, 3], [4, 5, 6, 7]])), n))(
        *xs), [np.stack([x, x]) for x in ARGS], CALLS, error="NotImplementedError"),
    Sample("psend_unbound", lambda n, x: n.lax.psend(x, "nope", RING), [ROWS], CALLS, error="NameError"),
    Sample("psend_on_cpu", along(passed), [ROWS], ("jit",), error="NotImplementedError"),
    Sample("psend_grad", lambda n, x: n.jax.grad(lambda x: along(passed)(n, x).sum())(x), [ROWS], CALLS, error="NotImplementedError"),
    Sample("precv_of_nothing", along(lambda n, x: n.lax.precv(None, x, "d", RING)), [ROWS], CALLS, error="TypeError"),
]

SAMPLES = [replace(s, lawful=False) for s in (*TYPES, *(replace(s, name=f"error_{s.name}") for s in ERRORS))]
