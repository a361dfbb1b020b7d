"""Random programs whose results are compared with the reference's."""

from __future__ import annotations

import random

import numpy as np

from tests.reference.sample import Sample
from tests.transforms import programs

X = np.array([0.3, -0.7, 0.9], np.float32)
SEEDS = (*range(10), 34)       # 34 has a cond whose other branch has no finite slope


def _sample(seed: int) -> Sample | None:
    program = programs.generate(random.Random(seed).randrange, 3)
    if not programs.sound(program):
        return None
    transforms = ["eager", "jit", "vmap", "jit.vmap"]
    if not programs.contains(program, programs.NO_REVERSE):
        transforms += ["grad", "jit.grad", "vmap.grad", "grad.vmap", "checkpoint"]
    if not programs.contains(program, programs.NO_FORWARD):
        transforms += ["jvp", "vmap.jvp"]
    if not programs.contains(program, (*programs.NO_REVERSE, *programs.NO_FORWARD)):
        transforms += ["jvp.grad"]
    return Sample(f"program_{seed}", lambda n, x: programs.run(n, program, x), [X], tuple(transforms), tol=(2e-4, 2e-5))


SAMPLES = [sample for seed in SEEDS if (sample := _sample(seed)) is not None]
