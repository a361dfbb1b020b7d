"""Samples of `ops`: segments of every kind."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.data import bools, floats, ints
from tests.reference.sample import ALL, WHOLE, Sample

NAMES = ("segment_sum", "segment_prod", "segment_max", "segment_min")
IDS = np.int32([0, 0, 2, 1, 2, 4])


def of(name, *more, **options):
    return lambda n, *xs: getattr(import_module(f"{n.name}.ops"), name)(*xs, *more, **options)


SAMPLES = [
    *(Sample(name, of(name, num_segments=6), [floats(6, low=0.5), IDS], WHOLE) for name in NAMES),
    *(Sample(f"{name}_rows", of(name, num_segments=5), [floats(6, 3, low=0.5), IDS], WHOLE) for name in NAMES),
    *(Sample(f"{name}_int", of(name, num_segments=6), [ints(6), IDS], WHOLE) for name in NAMES),
    *(Sample(f"{name}_counted", of(name), [floats(6), IDS], ("eager",)) for name in NAMES),
    *(Sample(f"{name}_out_of_range", of(name, num_segments=2), [floats(6), np.int32([0, -1, 2, 1, 9, -9])], WHOLE)
      for name in NAMES),
    *(Sample(f"{name}_buckets", of(name, num_segments=6, bucket_size=4), [floats(6), IDS], WHOLE) for name in NAMES),
    Sample("segment_sum_slopes", of("segment_sum", num_segments=6), [floats(6), IDS], ALL),
    Sample("segment_max_bool", of("segment_max", num_segments=3), [bools(4), np.int32([0, 1, 1, 0])], ("eager",)),
    Sample("sorted", of("segment_sum", num_segments=4, indices_are_sorted=True), [floats(4), np.int32([0, 1, 1, 3])], WHOLE),
    Sample("unique", of("segment_sum", num_segments=4, unique_indices=True), [floats(3), np.int32([3, 1, 0])], WHOLE),
    Sample("clipped", of("segment_sum", num_segments=3, mode="clip"), [floats(3), np.int32([3, 1, 0])], WHOLE),
    Sample("traced_count", of("segment_sum"), [floats(6), IDS], ("jit",), error="ConcretizationTypeError"),
    Sample("negative_count", of("segment_sum", num_segments=-1), [floats(6), IDS], error="ValueError"),
    Sample("float_ids", of("segment_sum", num_segments=3), [floats(3), floats(3)], error="TypeError"),
]
