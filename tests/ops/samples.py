"""Samples of `ops`: segments of every kind."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.data import bools, floats, ints
from tests.reference.sample import ALL, WHOLE, Sample

LAWS = False        # compared with the reference alone
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
    *(Sample(f"{name}_{kind}", of(name, num_segments=3), [data, np.int32(ids)], WHOLE) for name in NAMES for kind, data, ids in (
        ("scalar", np.float32(2), [0, 2, 2]), ("ids_of_two_dimensions", floats(2, 2), [[0, 1], [1, 0]]),
        ("one_row_many_ids", floats(1, 3), [[0, 1], [1, 0]]), ("scalar_of_two_dimensions", np.int32(3), [[0, 1], [1, 0]]))),
    Sample("segment_sum_scalar_slopes", of("segment_sum", num_segments=2), [floats(), np.int32([0, 1, 1])], ALL),
    Sample("two_dimensions_in_buckets", of("segment_sum", num_segments=2, bucket_size=1), [floats(2, 2), np.int32([[0, 1], [1, 0]])],
           ("eager",)),
    Sample("data_do_not_fit", of("segment_sum", num_segments=3), [floats(4), np.int32([[0, 1], [1, 0]])], error="ValueError"),
    Sample("traced_count", of("segment_sum"), [floats(6), IDS], ("jit",), error="ConcretizationTypeError"),
    Sample("negative_count", of("segment_sum", num_segments=-1), [floats(6), IDS], error="ValueError"),
    Sample("float_ids", of("segment_sum", num_segments=3), [floats(3), floats(3)], error="TypeError"),
]
