"""The parameters of public functions, asked of one side: `python -m tests.facades.signatures jax` prints them as JSON."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import warnings

ROOMS = ("", "api_util", "core", "custom_batching", "custom_derivatives", "debug", "distributed", "dlpack", "dtypes", "experimental.pallas", "experimental.pallas.tpu", "export", "extend.core", "flatten_util", "image", "lax",
         "lax.linalg", "monitoring", "nn", "nn.initializers", "numpy", "numpy.fft", "numpy.linalg", "ops", "profiler", "random", "scipy.integrate",
         "scipy.linalg", "scipy.ndimage", "scipy.signal", "scipy.sparse.linalg", "scipy.special", "sharding", "stages", "tree", "tree_util")  # fmt: skip


def parameters(fun) -> dict | None:
    """What calls may give: names by position in order, those by keyword, those with defaults, and whether any is taken."""
    try:
        found = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = inspect.Parameter
    return {
        "by_position": [
            p.name for p in found if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        ],
        "by_keyword": [
            p.name for p in found if p.kind in (kinds.KEYWORD_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        ],
        "optional": [p.name for p in found if p.default is not kinds.empty],
        "any_position": any(p.kind is kinds.VAR_POSITIONAL for p in found),
        "any_keyword": any(p.kind is kinds.VAR_KEYWORD for p in found),
    }


def public(package: str) -> dict[str, dict]:
    """The parameters of every public function of the rooms."""
    out = {}
    for room in ROOMS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module(f"{package}.{room}".rstrip("."))
            for name in dir(module):
                fun = None if name.startswith("_") else getattr(module, name, None)
                if callable(fun) and (found := parameters(fun)) is not None:
                    out[f"{room}.{name}".lstrip(".")] = found
    return out


if __name__ == "__main__":
    print(json.dumps(public(sys.argv[1])))
