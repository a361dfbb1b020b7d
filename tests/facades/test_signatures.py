"""Every public function takes the parameters that the reference's takes: by the same names, in the same order."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.facades.signatures import public
from tests.reference.oracle import REFERENCE, ROOT, unavailable

INNER = "made by the library, never by users"
VALUE = "a context manager that does nothing without a value"
EXCEPTIONS = {
    **dict.fromkeys(("Ref", "export.DisabledSafetyCheck", "export.Exported", "extend.core.DebugInfo", "extend.core.Jaxpr", "extend.core.JaxprEqn",
                     "extend.core.Token", "extend.core.Var", "stages.ArgInfo", "stages.Compiled", "stages.Lowered", "stages.Traced"), INNER),
    **dict.fromkeys(("allow_f16_reductions", "array_garbage_collection_guard", "default_device", "default_matmul_precision", "default_prng_impl",
                     "legacy_prng_key", "numpy_dtype_promotion", "numpy_rank_promotion", "transfer_guard_device_to_device",
                     "transfer_guard_device_to_host", "transfer_guard_host_to_device"), VALUE),
    "experimental.pallas.tpu.MemorySpace": "its members are spaces of xlab.kernels; several of these names stand for one",
    "core.ShapedArray": "what is said of Manual axes is called mat",
    "export.export": "_override_lowering_rules is private",
    "extend.core.find_top_trace": "its parameter is called _ in the reference",
    "numpy.ufunc": "its methods are found from the function, not given",
}  # fmt: skip


def differences(ours: dict, theirs: dict) -> list[str]:
    """What a call of theirs may give that a call of ours may not."""
    found = []
    if not ours["any_keyword"]:
        missing = [p for p in theirs["by_keyword"] if p not in ours["by_keyword"]]
        found += [f"has no parameter {p}" for p in missing]
    order = [p for p in theirs["by_position"] if p in ours["by_position"]]
    if order != [p for p in ours["by_position"] if p in order]:
        found.append(
            f"takes {ours['by_position']} in this order, the reference {theirs['by_position']}"
        )
    if not ours["any_position"] and len(ours["by_position"]) < len(theirs["by_position"]):
        found.append(
            f"takes {len(ours['by_position'])} arguments by position, the reference {len(theirs['by_position'])}"
        )
    known = {*ours["by_position"], *ours["by_keyword"]}
    return found + [
        f"needs {p}" for p in theirs["optional"] if p in known and p not in ours["optional"]
    ]


@pytest.fixture(scope="module")
def theirs() -> dict:
    if (reason := unavailable()) is not None:
        pytest.skip(reason)
    asked = subprocess.run(
        [sys.executable, "-m", "tests.facades.signatures", REFERENCE[0]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ, JAX_PLATFORMS="cpu"),
    )
    return json.loads(asked.stdout.splitlines()[-1])


@pytest.mark.reference
def test_parameters(theirs):
    ours = public("xlab")
    differing = {
        name: found
        for name in ours.keys() & theirs.keys()
        if (found := differences(ours[name], theirs[name]))
    }
    wrong = {name: found for name, found in sorted(differing.items()) if name not in EXCEPTIONS}
    assert not wrong, "\n".join(f"{name} {'; '.join(found)}" for name, found in wrong.items())
    idle = sorted(EXCEPTIONS.keys() - differing.keys())
    assert not idle, f"exceptions that are not needed any more: {idle}"
