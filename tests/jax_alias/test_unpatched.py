"""Libraries where xlab stands in for JAX: they ask for the private names that the table says, and run as they were installed."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest

from tests.jax_alias.test_finder import printed
from xlab.jax_alias import private

LIBRARIES = (
    "blackjax", "chex", "diffrax", "distrax", "equinox", "flax", "haiku", "jraph", "lineax", "numpyro", "optax", "optimistix", "orbax.checkpoint", "rlax",
    "tensorflow_probability.substrates.jax",
)  # fmt: skip
NO_SOURCE = "pickles", "flax tests"  # what was written by JAX itself, and what is not installed


@cache
def sources(package: str) -> tuple[str, ...]:
    """The text of each of a package's files."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        pytest.skip(f"{package} not installed: pip install '.[libraries]'")
    files = (p for folder in spec.submodule_search_locations for p in Path(folder).rglob("*.py"))
    return tuple(path.read_text(errors="replace") for path in files)


def mentions(package: str, *words: str) -> bool:
    """Whether one of a package's files has all of these words."""
    asked = [re.compile(rf"(?<!\\w){re.escape(word)}(?!\\w)") for word in words]
    return any(all(word.search(text) for word in asked) for text in sources(package))


@pytest.mark.slow
@pytest.mark.parametrize("user", sorted({u for *_, users in private.TABLE for u in users.split(", ")} - {*NO_SOURCE}))  # fmt: skip
def test_who_is_said_to_ask_for_a_private_name_does(user):
    rows = [(module.rpartition(".")[2], name) for module, name, _, users in private.TABLE if user in users.split(", ")]  # fmt: skip
    rows += [(name,) for _, name, _, users in private.ATTRIBUTES if user in users.split(", ")]
    rows += [(name,) for name, _, users in private.LOGGERS if user in users.split(", ")]
    assert [row for row in rows if not mentions(user, *row)] == []
    assert not mentions(user, "dtypes", "a_name_that_nobody_has")


# What a module and its classes hold when its file has been run, and which of that is another thing, of ours, in the end.
LOOK = """
import importlib, importlib.machinery, sys, types, warnings
warnings.simplefilter("ignore")
import xlab.as_jax
import xlab
held, run = {{}}, importlib.machinery.SourceFileLoader.exec_module
top = "{library}".partition(".")[0]
def holders(module):
    yield module
    for value in list(vars(module).values()):
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield value
def exec_module(loader, module):
    run(loader, module)
    if module.__name__.partition(".")[0] == top:
        held[module.__name__] = [(h, dict(vars(h)), {{k: v.__code__ for k, v in vars(h).items() if isinstance(v, types.FunctionType)}}) for h in holders(module)]
importlib.machinery.SourceFileLoader.exec_module = exec_module
def ours(value):
    found = getattr(value, "__module__", None) or ""
    if isinstance(value, types.FunctionType):
        found = value.__globals__["__name__"]
    return isinstance(found, str) and found.partition(".")[0] == "xlab"
library = importlib.import_module("{library}")
{patch}
for name, parts in held.items():
    loader = sys.modules[name].__spec__.loader if name in sys.modules else None
    if loader is not None:
        assert type(loader) is importlib.machinery.SourceFileLoader, (name, loader)
        file = sys.modules[name].__file__
        assert loader.get_code(name) == compile(loader.get_data(file), file, "exec", dont_inherit=True), name
    for holder, before, codes in parts:
        for key, value in list(vars(holder).items()):
            if value is not before.get(key) and ours(value):
                print("replaced", name, key)
            if key in codes and isinstance(value, types.FunctionType) and value is before[key] and value.__code__ is not codes[key]:
                print("replaced", name, key)
print(len(held) > 0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_runs_as_it_was_installed(library):
    if importlib.util.find_spec(library.partition(".")[0]) is None:
        pytest.skip(f"{library} not installed: pip install '.[libraries]'")
    assert printed(LOOK.format(library=library, patch="")) == "True"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ("library.adam = xlab.jit", "replaced optax adam"),
        ("library.GradientTransformation.more = xlab.jit", "replaced optax._src.base more"),
        ("library.apply_updates.__code__ = (lambda a, b: a).__code__", "replaced optax._src.update apply_updates"),
    ],
)  # fmt: skip
def test_a_patch_would_be_seen(patch, said):
    if importlib.util.find_spec("optax") is None:
        pytest.skip("optax not installed: pip install '.[libraries]'")
    assert said in printed(LOOK.format(library="optax", patch=patch)).splitlines()
