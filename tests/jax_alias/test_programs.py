"""Programs of users of JAX's libraries, unchanged: xlab's numbers are JAX's.

Each file in `programs/` is written for JAX alone and leaves a `RESULT`. It runs twice, in two processes: as Python runs it, on JAX, and under
`xlab run`. The libraries are in the extra `libraries`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# The libraries that each program stands for.
PROGRAMS = {
    "blackjax_hmc": ("blackjax",),
    "deepmind_small": ("chex", "distrax", "rlax", "jraph"),
    "diffrax_adjoint": ("diffrax", "optimistix", "lineax"),
    "diffrax_solvers": ("diffrax", "equinox", "optimistix"),
    "equinox_layers": ("equinox",),
    "equinox_mlp": ("equinox", "optax"),
    "flax_jits": ("flax",),
    "forms_that_libraries_use": (),
    "haiku_transformer": ("haiku", "optax"),
    "lineax_solvers": ("lineax", "equinox"),
    "linen_sharded": ("flax",),
    "linen_transformer": ("flax", "optax"),
    "nnx_state": ("flax", "optax"),
    "numpyro_nuts": ("numpyro",),
    "optimistix_solvers": ("optimistix", "lineax", "equinox", "optax"),
    "orbax_managed": ("orbax", "optax"),
    "orbax_round_trip": ("orbax", "optax"),
}
LAST = "import json, runpy, sys; print(json.dumps(runpy.run_path(sys.argv[1])['RESULT']))"


def test_every_program_is_in_the_table():
    assert {path.stem for path in (HERE / "programs").glob("*.py")} == set(PROGRAMS)


@pytest.mark.reference
@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers(name):
    missing = [lib for lib in PROGRAMS[name] if importlib.util.find_spec(lib) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: pip install '.[libraries]'")
    program = str(HERE / "programs" / f"{name}.py")
    running = {
        side: subprocess.Popen(
            [sys.executable, "-c", start + LAST, program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "XLAB_NUM_CPU_DEVICES": "8",
                 "XLA_FLAGS": "--xla_force_host_platform_device_count=8"},
        )
        for side, start in (("jax", ""), ("xlab", "import xlab.as_jax\n"))
    }  # fmt: skip
    found = {}
    for side, process in running.items():
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, f"{side}: {err}"
        found[side] = json.loads(out.splitlines()[-1])
    compare(found["xlab"], found["jax"], name)


def compare(ours, theirs, where):
    """Equal structures, names and counts; floats to single precision's last digits."""
    assert type(ours) is type(theirs), where
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs), where
        for key in theirs:
            compare(ours[key], theirs[key], f"{where}.{key}")
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), where
        for i, (a, b) in enumerate(zip(ours, theirs)):
            compare(a, b, f"{where}[{i}]")
    elif isinstance(theirs, float):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=1e-6, err_msg=where)
    else:
        assert ours == theirs, where
