"""Pickles made under JAX, opened where xlab stands in for it, and the other way round: each side in a process of its own."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import xlab
from tests.jax_alias.test_finder import printed, run
from xlab.jax_alias import pickles

THINGS = """
import numpy as np
from jax.sharding import PartitionSpec as P
made = {
    "array": jnp.arange(6, dtype="bfloat16").reshape(2, 3), "weak": jnp.asarray(2.0), "old": jax.random.PRNGKey(3),
    "key": jax.random.key(3), "keys": jax.random.split(jax.random.key(5, impl="rbg"), 2), "urbg": jax.random.key(1, impl="unsafe_rbg"),
    "type": jax.random.key(0).dtype, "treedef": jax.tree.structure({"a": [1, (2, None)], "b": 3}),
    "struct": jax.ShapeDtypeStruct((2, 3), "float32", weak_type=True), "spec": P("d", None, unreduced={"e"}),
    "options": [jax.lax.Precision.HIGHEST, jax.lax.DotAlgorithmPreset.TF32_TF32_F32, jax.lax.RandomAlgorithm.RNG_PHILOX, jax.lax.GatherScatterMode.CLIP,
                jax.lax.FftType.IRFFT, jax.sharding.AxisType.Manual, *jax.memory.Space],
    "dimensions": [jax.lax.ConvDimensionNumbers((0, 1, 2), (2, 1, 0), (0, 2, 1)), jax.lax.GatherDimensionNumbers((0,), (1,), (1,)),
                   jax.lax.ScatterDimensionNumbers((0,), (1,), (1,))],
    "paths": [*map(jax.tree_util.keystr, [[jax.tree_util.DictKey("a")]]), jax.tree_util.GetAttrKey("b"), jax.tree_util.SequenceKey(2)],
    "partial": jax.tree_util.Partial(max, jnp.float32(2)), "dtypes": [jnp.bfloat16, jnp.dtype("float8_e4m3fn"), jax.dtypes.float0],
    "sharded": jax.device_put(jnp.arange(8.0), jax.NamedSharding(jax.make_mesh((8,), ("x",)), P("x"))),
    "batch": [np.float64(2), np.arange(3)], "none": jax.tree.structure([None, {"b": (), "a": 1}]),
}
"""
FACTS = """
def facts(v):
    k = v["key"]
    return repr([
        (str(v["array"].dtype), v["array"].tolist()), (float(v["weak"]), v["weak"].weak_type),
        jax.random.normal(k, (2,)).tolist(), jax.random.bits(v["keys"][1], (2,)).tolist(), jax.random.bits(v["urbg"], (2,)).tolist(),
        jax.random.normal(v["old"], (2,)).tolist(), str(v["type"]), v["type"] == k.dtype,
        v["treedef"].unflatten([1, 2, 3]), v["treedef"] == jax.tree.structure({"a": [0, (0, None)], "b": 0}),
        (v["struct"].shape, str(v["struct"].dtype), v["struct"].weak_type, v["struct"].sharding), (v["spec"].partitions, v["spec"].unreduced),
        [(type(o).__name__, o.name, [o is one for one in type(o)]) for o in v["options"]], [(type(d).__name__, *d) for d in v["dimensions"]],
        v["options"][0] is jax.lax.Precision.HIGHEST, v["options"][5] is jax.sharding.AxisType.Manual, v["options"][6] is jax.memory.Space.Device,
        list(map(str, v["paths"])), float(v["partial"](1.0)), [jax.numpy.dtype(d).name for d in v["dtypes"]],
        v["sharded"].tolist(), (v["batch"][0], v["batch"][1].tolist()), v["none"].unflatten([7]), v["none"] == jax.tree.structure([None, {"b": (), "a": 1}]),
        jax.numpy.dot(v["old"] * 1.0, v["old"] * 1.0, precision=v["options"][0]).tolist(),
        jax.jit(lambda k, x: jax.random.fold_in(k, 1) if x is None else x * 2)(k, v["array"]).tolist(),
    ])
"""


@pytest.mark.reference
def test_made_under_jax_opened_here(tmp_path):
    file = str(tmp_path / "things.pkl")
    theirs = printed(
        f"import pathlib, pickle, jax, jax.numpy as jnp\n{THINGS}{FACTS}\npathlib.Path({file!r}).write_bytes(pickle.dumps(made))\nprint(facts(made))"
    )
    # The pickle is the first thing that is asked of xlab.
    ours = printed(
        f"import xlab.as_jax, pathlib, pickle, jax\n{FACTS}\nmade = pickle.loads(pathlib.Path({file!r}).read_bytes())\nprint(facts(made))\n"
        "print({n: type(made[n]).__name__ for n in ('key', 'type')}, type(made['array']) is type(jax.numpy.ones(3)), "
        "pickle.loads(pickle.dumps(made['key'])).dtype)"
    )
    assert ours.splitlines() == [
        theirs,
        "{'key': 'KeyArray', 'type': 'KeyDType'} True key<fry>",
    ]


@pytest.mark.reference
def test_made_here_opened_beside_jax(tmp_path):
    """Data are xlab's: what JAX reads as its own works, and the rest says how it is handed over."""
    file = str(tmp_path / "things.pkl")
    printed(
        f"import xlab.as_jax, pathlib, pickle, jax, jax.numpy as jnp\n{THINGS}\npathlib.Path({file!r}).write_bytes(pickle.dumps(made))"
    )
    said = printed(f"""
import pathlib, pickle, numpy, jax, jax.numpy as jnp
v = pickle.loads(pathlib.Path({file!r}).read_bytes())
print(v["treedef"].unflatten([1, 2, 3]), v["treedef"] == jax.tree.structure({{"a": [0, (0, None)], "b": 0}}))
print(jnp.asarray(numpy.asarray(v["array"])).sum(), jax.tree.map(lambda s: s.shape, v["struct"]))
for f in (lambda: jnp.sin(v["array"]), lambda: jax.random.split(v["old"]), lambda: jax.jit(lambda x: x)(v["weak"])):
    try:
        f()
    except TypeError as error:
        print("Hand it over with jax.numpy" in str(error))
spec = jax.sharding.NamedSharding(jax.make_mesh((1, 1), ("d", "e")), v["spec"]).spec
print(v["spec"].partitions, spec[0], sorted(spec.unreduced), v["keys"].shape, v["type"])
for f in (lambda: jax.random.bits(v["keys"][1]), lambda: jax.random.split(v["key"])):
    try:
        f()
    except RuntimeError as error:
        print("Hand them over with jax.random.wrap_key_data" in str(error))
import xlab
print(v["spec"] == xlab.P("d", None, unreduced={{"e"}}), v["type"] == xlab.random.key(0).dtype)
for k in v["keys"]:
    theirs = jax.random.wrap_key_data(numpy.asarray(xlab.random.key_data(k)), impl=k.dtype.impl.name)
    print(int(jax.random.bits(theirs)) == int(xlab.random.bits(k)))
print(jax.random.bits(jax.random.wrap_key_data(numpy.asarray(xlab.random.key_data(v["key"])))), xlab.random.bits(v["key"]))
""").splitlines()
    assert said[0] == "{'a': [1, (2, None)], 'b': 3} True" and said[1] == "15 (2, 3)"
    assert said[2:5] == ["True"] * 3
    assert said[5] == "('d', None) d ['e'] (2,) key<fry>"
    assert said[6:11] == ["True", "True", "True True", "True", "True"]
    ours, theirs = said[11].split()
    assert ours == theirs


LIBRARY = """
import jax
@jax.tree_util.register_pytree_node_class
class Pair:
    def __init__(self, a, b): self.a, self.b = a, b
    def tree_flatten(self): return (self.a, self.b), "pair"
    @classmethod
    def tree_unflatten(cls, aux, xs): return cls(*xs)
"""


@pytest.mark.reference
@pytest.mark.parametrize("made_on", ["jax", "xlab"])
def test_structures_of_a_librarys_classes(tmp_path, made_on):
    """Made on either side, opened on either side and beside JAX; of no use where the library registers them with nobody."""
    (tmp_path / "somelib.py").write_text(LIBRARY)
    sides = {"jax": "", "xlab": "import xlab.as_jax\n", "beside": "import xlab\n"}
    file = tmp_path / "structure.pkl"
    printed(
        sides[made_on]
        + f"import jax, pathlib, pickle, somelib\npathlib.Path({str(file)!r}).write_bytes(pickle.dumps(jax.tree.structure([somelib.Pair(1, {{'x': 2}}), 3])))",
        folder=tmp_path,
    )
    opened = f"""
import jax, pathlib, pickle, copy, somelib
t = pickle.loads(pathlib.Path({str(file)!r}).read_bytes())
pair, three = t.unflatten([1, 2, 3])
print(type(pair) is somelib.Pair, pair.b, three, t == jax.tree.structure([pair, 4]), pickle.loads(pickle.dumps(t)) == t == copy.deepcopy(t))
print(jax.tree.leaves(jax.tree.map(lambda x: x + 1, [pair, three])), jax.tree.unflatten(t, [5, 6, 7])[0].a)
"""
    for side, start in sides.items():
        said = printed(start + opened, folder=tmp_path)
        assert said == "True {'x': 2} 3 True True\n[2, 3, 4] 5", side


def test_a_structure_of_a_class_that_nobody_registered(tmp_path):
    (tmp_path / "somelib.py").write_text(LIBRARY)
    file = tmp_path / "structure.pkl"
    printed(
        f"import xlab.as_jax, jax, pathlib, pickle, somelib\npathlib.Path({str(file)!r}).write_bytes(pickle.dumps(jax.tree.structure(somelib.Pair(1, 2))))",
        folder=tmp_path,
    )
    (tmp_path / "somelib.py").write_text("class Pair: pass\n")
    for start in ("", "import xlab.as_jax\n"):
        done = run(
            start + f"import pathlib, pickle; pickle.loads(pathlib.Path({str(file)!r}).read_bytes())", folder=tmp_path
        )  # fmt: skip
        assert "UnpicklingError: this pickle holds the structure of a somelib.Pair" in done.stderr
        assert "start with `import xlab.as_jax`" in done.stderr


def test_an_array_of_a_pickle_is_the_first_that_is_asked_for(tmp_path):
    file = tmp_path / "array.pkl"
    file.write_bytes(pickle.dumps(xlab.numpy.arange(3)))
    assert (
        printed(
            f"import pathlib, pickle; print(pickle.loads(pathlib.Path({str(file)!r}).read_bytes()) + 1)"
        )
        == "[1 2 3]"
    )


def test_names_that_pickles_hold_and_that_are_not_here(tmp_path):
    file = tmp_path / "held.pkl"
    file.write_bytes(b"cjax._src.nothing_such\nThing\n.")
    said = printed(
        f"import xlab.as_jax, pathlib, pickle\ntry:\n    pickle.loads(pathlib.Path({str(file)!r}).read_bytes())\nexcept ImportError as e:\n    print(e)"
    )
    assert "has no module jax._src.nothing_such" in said
    assert "the pickle holds it: where it was made, store NumPy arrays" in said
    with pytest.raises(pickle.UnpicklingError, match="'mine', which is not here"):
        pickles.KeyImplementation((2,), None, None, None, None, "mine", "m")


def test_specs_and_structs_are_copied_by_pickles():
    spec = xlab.P("a", ("b", "c"), unreduced={"d"})
    assert pickle.loads(pickle.dumps(spec)) == spec and hash(
        pickle.loads(pickle.dumps(spec))
    ) == hash(spec)
    struct = xlab.ShapeDtypeStruct((2,), np.float32, weak_type=True)
    assert pickle.loads(pickle.dumps(struct)) == struct
