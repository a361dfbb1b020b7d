"""Every collective again, in a few lines of NumPy: `x[d]` is what device `d` holds, `groups` lists the devices that speak together."""

from __future__ import annotations

import itertools
import math

import numpy as np


def groups(shape, names, axes):
    """Lists of flat device numbers, ranks row-major over `axes` in the order given."""
    others = [n for n in names if n not in axes]
    size = dict(zip(names, shape))
    out = []
    for fixed in itertools.product(*(range(size[n]) for n in others)):
        row = []
        for moving in itertools.product(*(range(size[n]) for n in axes)):
            at = {**dict(zip(others, fixed)), **dict(zip(axes, moving))}
            row.append(int(np.ravel_multi_index([at[n] for n in names], shape)))
        out.append(row)
    return out


def by_group(rule):
    """A model from a rule on one group: `rule(values in order of rank, **options) -> results in order of rank`."""

    def model(x, rows, **options):
        out = [None] * len(x)
        for row in rows:
            for device, value in zip(row, rule([x[d] for d in row], **options)):
                out[device] = value
        return np.stack(out)

    return model


psum = by_group(lambda xs: [sum(xs)] * len(xs))
pmean = by_group(lambda xs: [sum(xs) / len(xs)] * len(xs))
pmax = by_group(lambda xs: [np.max(xs, 0)] * len(xs))
pmin = by_group(lambda xs: [np.min(xs, 0)] * len(xs))
pargmax = by_group(lambda xs: [np.argmax(xs, 0)] * len(xs))
all_gather = by_group(lambda xs, axis: [np.stack(xs, axis)] * len(xs))
all_gather_tiled = by_group(lambda xs, axis: [np.concatenate(xs, axis)] * len(xs))
psum_scatter_tiled = by_group(lambda xs, axis: np.split(sum(xs), len(xs), axis))
psum_scatter = by_group(lambda xs, axis: [np.take(sum(xs), r, axis) for r in range(len(xs))])
axis_index = by_group(lambda xs: [np.int32(r) for r in range(len(xs))])
pbroadcast = by_group(lambda xs, source: [xs[source]] * len(xs))


@by_group
def all_to_all_tiled(xs, split, concat):
    blocks = [np.split(x, len(xs), split) for x in xs]
    return [np.concatenate([blocks[s][r] for s in range(len(xs))], concat) for r in range(len(xs))]


@by_group
def all_to_all(xs, split, concat):
    return [np.stack([np.take(x, r, split) for x in xs], concat) for r in range(len(xs))]


def ppermute(x, rows, perm):
    """Ranks are positions in the sorted group, whatever the order of the axes."""
    out = np.zeros_like(x)
    for row in map(sorted, rows):
        for s, d in perm:
            out[row[d]] = x[row[s]]
    return out


def size(rows):
    return math.prod([len(rows[0])])
