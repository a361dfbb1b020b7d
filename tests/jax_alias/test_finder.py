"""xlab in the place of JAX, each time in a process of its own: the hook stays for as long as its process."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.libraries.suites import pinned
from xlab.jax_alias import private

ROOT = Path(__file__).parents[2]


def run(text: str, *args: str, folder=None, **environment: str) -> subprocess.CompletedProcess:
    """What a program prints; `args` go before it on Python's command line."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *([str(folder)] if folder else [])]),
        "XLAB_NUM_CPU_DEVICES": "8",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "PYTHONWARNINGS": "error",
        **environment,
    }
    given = [*args] if args else ["-c", text]
    return subprocess.run(
        [sys.executable, *given], capture_output=True, text=True, timeout=120, env=environment, cwd=folder or ROOT
    )  # fmt: skip


def printed(text: str, *args: str, **options) -> str:
    done = run(text, *args, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_program_written_for_jax_runs_here():
    assert (
        printed("""
import xlab.as_jax
import jax, jax.numpy as jnp, numpy as np
from jax import lax, random
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jax import shard_map
import jax.scipy.special as special
mesh = jax.make_mesh((8,), ("x",))
y = jax.device_put(np.arange(8.0, dtype=np.float32), NamedSharding(mesh, P("x")))
total = jax.jit(shard_map(lambda x: lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))(y)
parts = [float(s.data[0]) for s in y.addressable_shards]
print(total, parts[7], jax.grad(lambda x: special.erf(x))(0.0) > 1, jax.numpy.sin is jnp.sin)
import xlab, sys
print(jax is xlab, jnp is xlab.numpy, sys.modules["jax.scipy.special"] is xlab.scipy.special, jax.__spec__.name)
assert isinstance(y, jax.Array) and not any(n.startswith("jax") and m.__name__.startswith("jax") for n, m in sys.modules.items() if n.split(".")[0] == "jax")
""")
        == "[28.] 7.0 True True\nTrue True True xlab"
    )


def test_filters_that_libraries_give_loggers_of_jax_decide_about_ours():
    assert (
        printed("""
import xlab.as_jax
import logging
import jax, jax.numpy as jnp

class Unwanted(logging.Filterer):
    def filter(self, record):
        return (record.name, record.getMessage()) != ("jax._src.callback", "jax.pure_callback failed")

shown = []
handler = logging.Handler()
handler.emit = lambda record: shown.append((record.getMessage(), record.exc_info[0].__name__))
logging.getLogger("xlab").addHandler(handler)

def fail(x):
    raise KeyError

def run():
    try:
        jax.jit(lambda x: jax.pure_callback(fail, x, x))(jnp.ones(2)).block_until_ready()
    except jax.errors.JaxRuntimeError:
        print(len(shown), *shown[-1:])

unwanted = Unwanted()
logging.getLogger("jax._src.callback").addFilter(unwanted)
run()
logging.getLogger("jax._src.callback").removeFilter(unwanted)
run()
""")
        == "0\n1 ('xlab.pure_callback failed', 'KeyError')"
    )


def test_names_that_are_not_here_say_who_asks_and_what_is_nearest(tmp_path):
    (tmp_path / "somelib.py").write_text(
        "try:\n    from jax.numpy import aranje\nexcept ImportError as e:\n    print(e)\n"
        "import jax\ntry:\n    jax.lax.dot_generel\nexcept AttributeError as e:\n    print(e)\n"
        "try:\n    import jax.experimental.nothing_such\nexcept ModuleNotFoundError as e:\n    print(e, e.name)\n"
        "try:\n    from jax._src.core import eval_jaxpr_effects\nexcept ImportError as e:\n    print(e)\n"
        "print(hasattr(jax, 'nothing_such'), getattr(jax.numpy, 'nothing_such', 3))\n"
    )
    name, attribute, module, private_name, absent = printed(
        "import xlab.as_jax, somelib", folder=tmp_path
    ).splitlines()
    assert "has no jax.numpy.aranje, which somelib" in name and f"{tmp_path}/somelib.py:2" in name
    assert "Nearest: xlab.numpy.arange" in name
    assert "has no jax.lax.dot_generel" in attribute and "xlab.lax.dot_general" in attribute
    assert "no module jax.experimental.nothing_such" in module
    assert module.endswith("jax.experimental.nothing_such")
    assert "has no jax._src.core.eval_jaxpr_effects" in private_name
    assert absent == "False 3"


# How programs ask for a name: what stands for `jax...` in the sentence, and what is nearest.
ASKED = {
    "jax.nump": ("jax.nump", "xlab.numpy"),
    "jnp.linalg.svdd": ("jax.numpy.linalg.svdd", "xlab.numpy.linalg.svd"),
    "jax.nn.initializers.gloro_uniform": ("jax.nn.initializers.gloro_uniform", "xlab.nn.initializers.glorot_uniform"),
    "jax.interpreters.ad.Zeroo": ("jax.interpreters.ad.Zeroo", "xlab.interpreters.ad.Zero"),
    "getattr(jax.lax, 'dot_generel')": ("jax.lax.dot_generel", "xlab.lax.dot_general"),
    "operator.attrgetter('lax.linalg.choleski')(jax)": ("jax.lax.linalg.choleski", "xlab.lax.linalg.cholesky"),
    "jax.random.PRNGKeys(0)": ("jax.random.PRNGKeys", "xlab.random.PRNGKey"),
    "from jax.experimental import palas": ("jax.experimental.palas", "xlab.experimental.pallas"),
    "from jax.experimental import pallas as pl; pl.BlockSpecc": ("jax.experimental.pallas.BlockSpecc", "xlab.experimental.pallas.BlockSpec"),
    "import jax.experimental.shard_mapp": ("module jax.experimental.shard_mapp", "xlab.experimental.shard_map"),
    "import jax.scipyy.stats": ("module jax.scipyy", "xlab.scipy"),
    "importlib.import_module('jax.experimental.shart')": ("module jax.experimental.shart", ""),
    "from jax._src.core import ShapedArrays": ("jax._src.core.ShapedArrays", "jax._src.core.ShapedArray"),
    "import jax._src.tree_utils": ("module jax._src.tree_utils", "jax._src.tree_util"),
    "jax._src.tree_utils": ("jax._src.tree_utils", "jax._src.tree_util"),
}  # fmt: skip


def test_each_way_of_asking_says_which_name_who_asks_and_what_is_nearest(tmp_path):
    lines = ["import importlib, operator, jax, jax.numpy as jnp", "said = []"]
    where = {}
    for text in ASKED:
        where[text] = len(lines) + 2
        lines += ["try:", f"    {text}", "except (ImportError, AttributeError) as e:", "    said.append((type(e).__name__, str(e)))"]  # fmt: skip
    (tmp_path / "somelib.py").write_text("\n".join(lines))
    said = ast.literal_eval(
        printed("import xlab.as_jax, somelib; print(somelib.said)", folder=tmp_path)
    )
    for (text, (name, near)), (kind, words) in zip(ASKED.items(), said, strict=True):
        assert words.startswith(f"xlab stands in for JAX and has no {name}, which somelib ({tmp_path}/somelib.py:{where[text]}) asks for. "), (text, words)  # fmt: skip
        assert (f"Nearest: {near}" in words) if near else ("Nearest" not in words), (text, words)
        module = "import" in text.split("; ")[-1]
        assert kind == ({True: "ModuleNotFoundError", False: "ImportError"}[name.startswith("module")] if module else "AttributeError")  # fmt: skip


@pytest.mark.reference
def test_modules_that_are_there_after_import_jax_are_here(tmp_path):
    """As attributes, without an import of their own; each says what it lacks."""
    (tmp_path / "walk.py").write_text("""
import jax, types
found, left = {}, [("jax", jax)]
while left:
    name, module = left.pop()
    for attribute, value in vars(module).items():
        whole = f"{name}.{attribute}"
        if isinstance(value, types.ModuleType) and value.__name__ == whole and not attribute.startswith("_") and whole not in found:
            found[whole] = value
            left.append((whole, value))
print(sorted(found))
""")
    names = ast.literal_eval(printed("import walk", folder=tmp_path))
    assert {"jax.numpy.linalg", "jax.nn.initializers", "jax.interpreters.ad"} <= set(names)
    said = printed(f"""
import xlab.as_jax, jax
for name in {names}:
    found = jax
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    try:
        found.nothing_such
    except AttributeError as error:
        print(f"has no {{name}}.nothing_such, " in str(error))
""")
    assert said.splitlines() == ["True"] * len(names)


def test_off_before_the_first_import_and_not_after(tmp_path):
    (tmp_path / "somelib.py").write_text("import jax\n")
    assert (
        printed("""
import sys, xlab.as_jax as a
a.off(); print(a.is_on(), "jax" in sys.modules)
a.on(); a.on(); print(a.is_on(), sum(type(f).__module__ == "xlab.jax_alias.finder" for f in sys.meta_path))
""")
        == "False False\nTrue 1"
    )
    done = run("import xlab.as_jax as a, somelib; a.off()", folder=tmp_path)
    assert "RuntimeError" in done.stderr and "(somelib)" in done.stderr and "Restart" in done.stderr


@pytest.mark.reference
def test_jax_itself_imported_before(tmp_path):
    (tmp_path / "somelib.py").write_text("import jax\n")
    done = run("import somelib, xlab.as_jax", folder=tmp_path)
    assert done.returncode and "ImportError: JAX was imported before" in done.stderr
    assert "by somelib" in done.stderr and "xlab run script.py" in done.stderr
    # And JAX goes on as it was, beside xlab.
    assert (
        printed("""
import jax, xlab
try:
    import xlab.as_jax
except ImportError:
    import jax.numpy as jnp
    print(jnp.__name__, float(jnp.ones(3).sum()), float(xlab.numpy.ones(3).sum()))
""")
        == "jax.numpy 3.0 3.0"
    )


def test_names_taken_out_of_the_table_of_modules_change_nothing():
    """Libraries hold what they were given: who takes JAX's names out of `sys.modules` would have both versions of them."""
    assert (
        printed("""
import sys, xlab.as_jax as as_jax, jax
for name in [n for n in sys.modules if n.partition(".")[0] == "jax"]:
    del sys.modules[name]
try:
    as_jax.off()
except RuntimeError as error:
    print("Restart" in str(error))
import jax.numpy, xlab
print(jax.numpy is xlab.numpy, as_jax.is_on())
""")
        == "True\nTrue True"
    )


@pytest.mark.reference
@pytest.mark.parametrize("first", ["", "import xlab"])
def test_jax_itself_imported_and_taken_out_again(first):
    done = printed(f"""
import sys
{first}
import jax
kept = jax
del sys.modules["jax"]
try:
    import xlab.as_jax
except ImportError as error:
    print("Restart" in str(error), "xlab.as_jax" in str(error))
""")
    assert done == "True True"


def test_scripts_and_modules(tmp_path):
    (tmp_path / "beside.py").write_text("WORD = 'beside'\n")
    (tmp_path / "train.py").write_text(
        "import sys, jax, beside\nif __name__ == '__main__':\n    print(jax.__name__, sys.argv[1:], beside.WORD)\n"
    )
    for given in (["train.py"], ["-m", "train"]):
        out = printed("", "-m", "xlab", "run", *given, "--lr", "0.1", folder=tmp_path)
        assert out == "xlab ['--lr', '0.1'] beside"
    done = run("", "-m", "xlab", "run", "trian.py", folder=tmp_path)
    assert done.returncode == 2 and "there is no file 'trian.py'" in done.stderr
    done = run("", "-m", "xlab", "run", folder=tmp_path)
    assert done.returncode == 2 and "xlab run train.py" in done.stderr


def test_the_environment_variable():
    """A file beside the installed package is read when Python starts; here its folder is added by hand."""
    text = f"import site; site.addsitedir({str(ROOT / 'xlab' / 'jax_alias')!r}); import sys; print('xlab.as_jax' in sys.modules)"
    for value, on in (("1", "True"), ("0", "False"), ("", "False")):
        assert printed(text, XLAB_AS_JAX=value) == on


def test_the_table_of_private_names_leads_somewhere():
    libraries = {name.removeprefix("dm-").partition("-")[0] for name in pinned()}
    asking = {*libraries, "pickles", "flax tests", "tensorflow_probability"}
    for module, name, here, users in private.TABLE:
        home, _, found = here.partition(":")
        assert getattr(importlib.import_module(home), found.removesuffix("()")), (module, name)
        assert set(users.split(", ")) <= asking, (module, name, users)
    assert len({row[:2] for row in private.TABLE}) == len(private.TABLE)
    for cls, name, here, users in private.ATTRIBUTES:
        found = [
            getattr(importlib.import_module(home), attribute)
            for home, _, attribute in (text.partition(":") for text in (cls, here))
        ]
        assert isinstance(found[0], type) and callable(found[1]) and name
        assert set(users.split(", ")) <= asking, (cls, name, users)


def test_private_names_work():
    assert (
        printed("""
import xlab.as_jax
import jax, jax.numpy as jnp, numpy as np
print(hasattr(jax.interpreters.xla, "canonicalize_dtype_handlers"))
import jax._src.traceback_util as traceback_util
from jax._src.tree_util import _registry
from jax._src.core import trace_state_clean
from jax._src.dtypes import supports_inf
from jax._src import compiler, distributed, xla_bridge
class Mine: pass
print(tuple in _registry, int in _registry, Mine in _registry)
jax.tree_util.register_pytree_node(Mine, lambda m: ((), None), lambda *_: Mine())
print(Mine in _registry)
print(trace_state_clean(), jax.jit(lambda x: (x, print(trace_state_clean()))[0])(1.0))
print(supports_inf(jnp.float32), supports_inf(jnp.float8_e4m3fn), supports_inf(int))
traceback_util.register_exclusion("/a/b.py")
print("/a/b.py" in traceback_util._exclude_paths, len(traceback_util._exclude_paths))
traceback_util._exclude_paths.remove("/a/b.py")
print("/a/b.py" in traceback_util._exclude_paths, list(traceback_util._exclude_paths))
print(distributed.global_state.client, distributed.global_state.process_id)
jnp.ones(3)
print(xla_bridge._backends.get("cpu").platform, xla_bridge._backends.get("gpu"))
class Cell:
    def __init__(self, value): self.value = value
    def __array__(self, dtype=None, copy=None): return np.asarray(self.value)
jax.core.pytype_aval_mappings[Cell] = jax.core.pytype_aval_mappings[np.ndarray]
print(jax.jit(lambda x: x + 1)(Cell(np.float32(2))))
from jax.experimental.colocated_python import func, serialization
from jax.extend import ifrt_programs
print(serialization.DeviceList.__name__, jnp.ones(3).sharding._addressable_device_assignment)
print(jax.typeof(jnp.ones(3, int)).at_least_vspace(), jax.typeof(jnp.ones(())).at_least_vspace())
try:
    ifrt_programs.ifrt_programs.make_plugin_program("x")
except RuntimeError as error:
    print(error)
""")
        == "True\nTrue False False\nTrue\nFalse\nTrue 1.0\nTrue False False\nTrue 1\nFalse []\nNone 0\ncpu None\n3.0\n"
        "DeviceList (CpuDevice(id=0),)\nfloat0[3] float32[]\nthis needs a Pathways cluster, and xlab runs on the devices of its own processes"
    )


def test_what_a_library_puts_in_the_place_of_a_private_name_is_used():
    """As chex does to keep programs from a platform; taken back, all is as before."""
    assert (
        printed("""
import xlab.as_jax
import jax
from jax._src import compiler
inner = compiler.backend_compile_and_load
def refuse(backend, *args, **kwargs):
    raise RuntimeError(f"no programs for {backend.platform}")
compiler.backend_compile_and_load = refuse
try:
    jax.jit(lambda x: x * 3.5)(2.0)
except RuntimeError as error:
    print(error)
compiler.backend_compile_and_load = inner
print(jax.jit(lambda x: x * 3.5)(2.0))
""")
        == "no programs for cpu\n7.0"
    )


def test_the_magic(tmp_path):
    (tmp_path / "somelib.py").write_text(
        "import jax\ndef double(x):\n    return jax.jit(lambda x: x * 2)(x)\n"
    )
    done = run(
        """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in (
    "%load_ext xlab", "%xjax", "import jax, somelib", "print(jax.__name__, somelib.double(3))", "%xjax off", "%xjax maybe",
    # the extension again, and modules again: `jax` stays what it is
    "%reload_ext xlab", "%xjax", "import importlib, xlab; importlib.reload(somelib), importlib.reload(jax)",
    "print('again', jax is xlab, somelib.double(4))", "%xjit somelib.double(5)",
    "%unload_ext xlab", "import jax.numpy; print('still', jax.numpy is xlab.numpy)", "%load_ext xlab", "%xjit somelib.double(6)",
    "print('views', _)",
):
    shell.run_cell(cell)
""",
        folder=tmp_path,
        IPYTHONDIR=str(tmp_path),
        PYTHONWARNINGS="",
    )
    out = done.stdout + done.stderr
    assert "import jax gives xlab from here on" in out and "xlab 6" in out
    assert (
        "UsageError: xlab stands in for JAX in modules that are imported already (somelib)" in out
    )
    assert "UsageError: %xjax takes on or off; given 'maybe'" in out
    assert "again True 8" in out and "still True" in out and "views 12" in out
    assert "Traceback" not in out and "Error" not in out.replace("UsageError", ""), out
