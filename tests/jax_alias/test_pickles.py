"""Pickles made under JAX, opened where xlab stands in for it, and the other way round: each side in a process of its own."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import xlab
from tests.jax_alias.test_finder import printed
from xlab.jax_alias import pickles

THINGS = """
from jax.sharding import PartitionSpec as P
made = {
    "array": jnp.arange(6, dtype="bfloat16").reshape(2, 3), "weak": jnp.asarray(2.0), "old": jax.random.PRNGKey(3),
    "key": jax.random.key(3), "keys": jax.random.split(jax.random.key(5, impl="rbg"), 2), "urbg": jax.random.key(1, impl="unsafe_rbg"),
    "type": jax.random.key(0).dtype, "treedef": jax.tree.structure({"a": [1, (2, None)], "b": 3}),
    "struct": jax.ShapeDtypeStruct((2, 3), "float32", weak_type=True), "spec": P("d", None, unreduced={"e"}),
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
