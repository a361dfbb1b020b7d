"""Random programs whose results are compared with the reference's.

`XLAB_RANDOM_PROGRAMS` says how many (60 here, beside the 40 of `test_programs.test_laws`; a nightly run takes 1 000 of each).
"""

from __future__ import annotations

import os
import random

import numpy as np

from tests.reference.sample import Sample
from tests.transforms import programs

LAWS = False        # compared with the reference alone
X = np.array([0.3, -0.7, 0.9], np.float32)
SEEDS = range(int(os.environ.get("XLAB_RANDOM_PROGRAMS", "60")))
THOROUGH = 10       # of these, every composition is compared; of the others, the ones that contain most


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
    if seed >= THOROUGH:
        deepest = [t for t in ("jvp.grad", "jit.grad", "vmap.grad", "vmap.jvp") if t in transforms]
        transforms = ["jit.vmap", *deepest[:2]]
    return Sample(f"program_{seed}", lambda n, x: programs.run(n, program, x), [X], tuple(transforms), tol=(2e-4, 2e-5))


SAMPLES = [sample for seed in SEEDS if (sample := _sample(seed)) is not None]
