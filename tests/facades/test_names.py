"""Every public function and class has its name, its parameters and their defaults: those of the reference, by tables."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import subprocess
import sys
import warnings
from functools import cache

import numpy as np
import pytest

from tests.reference.oracle import ROOT, unavailable

MODULES = [
    "numpy",
    "numpy.linalg",
    "numpy.fft",
    "lax",
    "lax.linalg",
    "nn",
    "nn.initializers",
    "random",
    "image",
    "ops",
    "tree",
    "tree_util",
    "dlpack",
    "scipy.cluster.vq",
    "scipy.fft",
    "scipy.integrate",
    "scipy.interpolate",
    "scipy.linalg",
    "scipy.ndimage",
    "scipy.optimize",
    "scipy.signal",
    "scipy.sparse.linalg",
    "scipy.spatial.transform",
    "scipy.special",
    "scipy.stats",
]
DISTRIBUTIONS = [
    "bernoulli",
    "beta",
    "betabinom",
    "binom",
    "cauchy",
    "chi2",
    "dirichlet",
    "expon",
    "gamma",
    "gennorm",
    "geom",
    "gumbel_l",
    "gumbel_r",
    "laplace",
    "logistic",
    "multinomial",
    "multivariate_normal",
    "nbinom",
    "norm",
    "pareto",
    "poisson",
    "t",
    "truncnorm",
    "uniform",
    "vonmises",
    "wrapcauchy",
]
MODULES += [f"scipy.stats.{name}" for name in DISTRIBUTIONS]

OURS = "the reference takes anything and passes it on; the parameters are named here"
MORE = "a parameter more, which other functions of the family have"
CLASS = "a class of another make"
TYPE = "a type for annotations, made in another way"
EXCEPTIONS = {
    "numpy.array": "copy, order and ndmin by position warn there; here they are simply taken",
    "numpy.fromfile": OURS, "numpy.fromiter": OURS, "numpy.set_printoptions": OURS, "numpy.ndarray": CLASS, "numpy.ufunc": CLASS,
    "numpy.result_type": MORE, "lax.ConvGeneralDilatedDimensionNumbers": TYPE, "lax.PrecisionLike": TYPE, "tree_util.KeyEntry": TYPE,
    "lax.argmax": "the dtype of indices has a default", "lax.argmin": "the dtype of indices has a default",
    "lax.cond": MORE, "lax.pmax": MORE, "lax.pmin": MORE, "lax.reduce_max": MORE, "lax.reduce_min": MORE, "lax.reduce_prod": MORE,
    "lax.random_gamma_grad": OURS, "random.binomial": MORE, "tree_util.default_registry": "one registry, under its only name",
    "tree_util.register_dataclass": "without a class it is a decorator",
    "lax.stage_p": "a primitive of the inside",
    "lax.optimization_barrier": "its operand can be named",
}  # fmt: skip


def described(namespace: str, module: str, name: str):
    """`[kind, __name__, parameters]` of a public name, as JSON would hold it; None where there is none."""
    space = importlib.import_module(f"{namespace}.{module}")
    if not hasattr(space, name):
        return None
    value = getattr(space, name)
    parameters = None
    if callable(value):
        try:
            found = inspect.signature(value).parameters.values()
            # Those that are given by keyword alone have no order.
            order = sorted(found, key=lambda p: p.name if p.kind is p.KEYWORD_ONLY else "")
            parameters = [[p.name, p.kind.name, default_of(p.default)] for p in order]
        except (TypeError, ValueError):
            pass
    return [type(value).__name__, getattr(value, "__name__", None), parameters]


def default_of(value) -> str | None:
    """The default as text, without what differs between objects that mean the same."""
    if value is inspect.Parameter.empty:
        return None
    text = repr(value)
    if " at 0x" in text:
        return getattr(value, "__name__", "an object of its own")
    return text


@pytest.mark.parametrize("module", MODULES)
def test_all_names_come_with_a_star(module):
    """Those too that are loaded when they are first used."""
    given: dict = {}
    exec(f"from xlab.{module} import *", given)
    home = importlib.import_module(f"xlab.{module}")
    own = {
        name
        for name in dir(home)
        if not name.startswith("_")
        and str(getattr(getattr(home, name), "__module__", "")).startswith(home.__name__)
    }
    assert own <= set(given)


def public(namespace: str) -> dict[str, dict]:
    """What each module has that is public and its own."""
    found = {}
    for module in MODULES:
        names = dir(importlib.import_module(f"{namespace}.{module}"))
        found[module] = {
            name: described(namespace, module, name)
            for name in names
            if not name.startswith("_")
            and not inspect.ismodule(
                getattr(importlib.import_module(f"{namespace}.{module}"), name, None)
            )
        }
    return found


@cache
def theirs() -> dict[str, dict]:
    if unavailable():
        pytest.skip(unavailable())
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.facades.test_names"],
        capture_output=True, text=True, cwd=ROOT, check=True, timeout=120,
        env=dict(os.environ, JAX_PLATFORMS="cpu", PYTHONPATH=str(ROOT)),
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def differences(module: str):
    """`(full name, what differs)` of a module's public names."""
    for name, expected in theirs()[module].items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = described("xlab", module, name)
        if ours is None:
            yield f"{module}.{name}", "is not there"
            continue
        if expected is None:
            continue
        kind, shown, parameters = expected
        if shown != ours[1]:
            yield f"{module}.{name}", f"is called {ours[1]}, not {shown}"
        if parameters is None:
            continue
        mine = ours[2] or []
        if kind == "ufunc":  # the reference's take any number of operands, which are named here
            parameters = [p for p in parameters if p[1] != "VAR_POSITIONAL"]
            mine = [p for p in mine if p[1] != "POSITIONAL_ONLY"]
        if parameters != mine:
            yield f"{module}.{name}", f"takes {mine}, not {parameters}"


@pytest.mark.reference
@pytest.mark.parametrize("module", MODULES)
def test_names_and_parameters(module):
    found = dict(differences(module))
    excused = {name for name in EXCEPTIONS if name.rpartition(".")[0] == module}
    unexpected = [f"{name} {what}" for name, what in found.items() if name not in excused]
    assert not unexpected, "\n" + "\n".join(unexpected)
    assert excused <= set(found), f"no exceptions any more: {excused - set(found)}"


def test_other_names_are_names_of_their_own():
    """Two public names of one function are two functions that do the same."""
    for module in ("numpy", "numpy.linalg", "numpy.fft", "tree", "tree_util", "dlpack"):
        space = importlib.import_module(f"xlab.{module}")
        for name in getattr(space, "__all__", ()):
            value = getattr(space, name)
            if inspect.isfunction(value):
                assert value.__name__ == name, f"xlab.{module}.{name} is called {value.__name__}"
                own = value.__module__.startswith("xlab.") or value is getattr(np, name, None)
                assert own, f"{name} is of {value.__module__}"


def test_what_the_array_api_asks():
    import xlab
    import xlab.numpy as jnp

    info = jnp.__array_namespace_info__()
    assert jnp.__array_api_version__ == "2024.12"
    assert set(info.capabilities()) == {
        "boolean indexing",
        "data-dependent shapes",
        "max dimensions",
    }
    assert info.default_device() is None and set(xlab.local_devices()) <= set(info.devices())
    x = jnp.ones(2)
    for dtypes in (info.default_dtypes(), info.dtypes(kind=("bool", "integral")), info.dtypes()):
        assert all(jnp.zeros(2, d).dtype == d for d in dtypes.values())
    assert info.default_dtypes()["indexing"] == jnp.argmax(x).dtype
    with xlab.enable_x64(True):
        assert list(info.dtypes(kind="complex floating")) == ["complex64", "complex128"]
        assert info.default_dtypes()["integral"] == jnp.arange(2).dtype == "int64"
    assert x.__array_namespace__(api_version="2024.12").sum(x) == 2
    with pytest.raises(ValueError, match="available versions"):
        x.__array_namespace__(api_version="2021.12")
    with pytest.raises(KeyError, match="integral"):
        info.dtypes(kind="whole numbers")


if __name__ == "__main__":
    print(json.dumps(public("jax")))
