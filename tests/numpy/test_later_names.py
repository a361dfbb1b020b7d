"""Names of `xlab.numpy` that are imported when they are first used."""

import importlib
import subprocess
import sys

import pytest

import xlab
import xlab.numpy as jnp


@pytest.mark.parametrize("module", jnp._LATER)
def test_the_table_names_what_the_modules_define(module):
    home = importlib.import_module(f"xlab.numpy.{module}")
    assert jnp._LATER[module].split() == home.__all__
    assert all(getattr(jnp, name) is getattr(home, name) for name in home.__all__)


def test_a_first_program_imports_none_of_them_and_all_are_there():
    code = """
import sys, xlab
xlab.jit(lambda x: (x + 1).sum())(1.0)
import xlab.numpy as jnp
loaded = [m for m in jnp._LATER if f"xlab.numpy.{m}" in sys.modules]
missing = {"median", "sum", "tril"} - set(dir(jnp))
given = {}
exec("from xlab.numpy import *", given)
print(loaded, missing, {"median", "sum", "tril"} - set(given), jnp.median(jnp.arange(3.0)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split("\n")[0] == "[] set() set() 1.0", done.stderr


def test_an_array_names_the_module():
    assert jnp.arange(3).__array_namespace__() is jnp
    assert xlab.make_jaxpr(lambda x: x.__array_namespace__().median(x))(jnp.arange(3.0)).out_avals
