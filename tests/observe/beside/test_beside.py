"""JAX beside xlab in one process, which is a process of its own: `sections.py` says what is done there."""

from __future__ import annotations

import pytest

from tests.observe.beside.running import found_in

pytestmark = pytest.mark.reference
EQUAL = "the results equal those of jax 0.10.2 bit for bit"


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    return found_in("sections", tmp_path_factory.mktemp("beside"))


def test_jax_is_imported_only_if_the_user_did(seen):
    assert seen["alone"] is True


def test_equations_lines_and_links(seen):
    p = seen["program"]
    assert p["ours"] == p["theirs"] == p["jaxpr"] and p["traced"]
    assert "block" in p["scopes"]
    by_line = dict(zip(p["ours"], p["lines"], strict=True))
    assert by_line["sin"] == "return jnp.sin(x) * 2" and by_line["gt"] == "z = jax.nn.relu(y)"
    assert all(p["lines"]), "equations without a line of the user's"
    assert {0, 1, 2, 3, 7, 15} <= set(p["links"]["stablehlo"])
    assert p["dots"] and set(p["dots"]) <= {"dot_general", "transpose"}
    assert p["by"] == "traced and compiled by jax 0.10.2" and p["by"] in p["text"]


def test_steps_end_where_jax_does(seen):
    s = seen["stepping"]
    assert s["said"].endswith(EQUAL) and s["sharded"].endswith(EQUAL)
    assert s["opaque"] == [] and s["count"] == 8 and s["shards"] == 8 and s["back"]


def test_a_result_that_is_not_jaxs_is_said_to_differ(seen):
    assert "DIFFER from those of jax" in seen["difference"]


def test_an_unknown_primitive_is_one_equation_that_jax_runs(seen):
    u = seen["unknown"]
    assert u["params"].startswith("stablehlo={%0 = stablehlo.sine") and u["lines"] >= 1
    assert u["said"].endswith(EQUAL)
    assert "cube_of_sines is a primitive of JAX's alone" in u["ladder"]


def test_models_that_hold_functions_are_arguments(seen):
    h = seen["held"]
    assert h["arguments"] == ["model.weight", "x", "scale"]
    assert h["by"] == "traced and compiled by jax 0.10.2" and h["said"].endswith(EQUAL)
    assert h["result"] == ["Model", "m", True] and h["ran"] == ["execute"] and h["time"] == 2
    assert h["kinds"] == [True, True]  # what is held decides what is traced
    found = seen["equinox"]
    if found is not None:
        names = [f"model.layers[{i}].{n}" for i in range(3) for n in ("weight", "bias")]
        assert found["arguments"] == [*names, "x"] and found["said"].endswith(EQUAL)


def test_passes_are_those_of_jaxs_compilation(seen):
    p = seen["passes"]
    assert p["count"] > 0 and p["compiled by jax"] == 1
    assert p["marks"] == ["e1"] and not p["names"]
    assert "keeps no module to compile again" in p["compiled"]


def test_collectives_are_those_of_what_jax_compiled(seen):
    c = seen["collectives"]
    assert c["kinds"] == ["all_reduce"] * c["jax"] == c["lowered"] == c["compiled"]
    assert c["layout"].startswith("f32[8@data,4] over data=4 model=2") and c["sharding"] == [2, 4]
    assert all("lowered and compiled by jax" in text for text in c["stages"])
    assert all(text.endswith(EQUAL) for text in [*c["stepped"], c["mapped"]]) and c["memory"]
    assert c["psum"] == [["all_reduce", "user", "psum"]]


def test_other_placements_are_traced_and_compiled_by_jax(seen):
    p, by = seen["placements"], "traced and compiled by jax 0.10.2"
    assert p["kinds"] == ["all_reduce"] * p["jax"] and p["peak"] > 0 and p["by"] == [by, by]
    assert p["lines"] == ['return jnp.tanh(batch @ weights["w"]).sum(0)']
    assert p["same"] == [True] * 4 and p["results"] and p["ranked by"]
    assert p["ranked"][0] == "as placed, P(None, 'model')" and p["best"] == 1
    assert len(p["ranked"]) == 5
    assert p["put"] == [True, True] and p["back"]
    assert "set one with jax.set_mesh(mesh)" in p["no mesh"]
    assert "set it with jax.set_mesh(mesh)" in p["no mesh to search"]
    assert "observe.Experiment(f, *args).search(axes=…)" in p["wide"]
    assert "pass the function, or what jax.jit(f) returned" in p["stage"]
    assert "a sharding or a PartitionSpec is needed, given 3" in p["no spec"]
    assert "there are batch, weights['w']" in p["pattern"]
    for words in p["ours on theirs"]:
        assert "a Mesh of JAX's was given to a function of xlab. Make one of xlab's" in words


def test_a_function_of_jaxs_is_transposed_by_the_rules_of_xlab(seen):
    p = seen["placements"]
    by = "traced by jax 0.10.2, transposed by the rules of xlab"
    assert p["transposed"] == [["all_gather"], ["psum_scatter"], [[0]], by] and p["page"]


def test_a_jaxpr_over_a_mesh_takes_it_from_its_arguments(seen):
    j = seen["jaxprs"]
    assert "jax.jit(f).trace(*args) instead of the jaxpr" in j["alone"] and j["program"] == 1
    assert j["placed"] == j["function"] == ["all_reduce"]
    assert j["memory"] and j["cost"] and j["passes"] and j["findings"]
    assert j["stepped"].endswith(EQUAL) and j["open"].endswith(EQUAL)
    assert "takes 2 values, given 1" in j["too few"]
    assert "value 0 is f32[8,4], given one of type f32[4,6]" in j["another"]


def test_every_other_view_of_a_function_of_jaxs(seen):
    v = seen["views"]
    assert v["findings"] == ["removable collective", "resharding"] and v["cost"] == [
        True,
        "<lambda> on 8 devices of cpu",
    ]
    assert v["diff"] == [["changed", "b:f32[8@data,4] = log a", "b:f32[8@data,4] = exp a"]]
    by = "  traced and compiled by jax 0.10.2, stepped by the rules of xlab"
    assert "made 32 NaNs" in v["nan"] and v["no nan"] == f"<lambda>: no NaN\n{by}"
    assert v["trace"] == 2 and v["series"] == 3
    assert "all-reduce" in v["profile"] and v["timeline"] == [8, "<lambda>"]
    stages = ["trace", "lower", "compile", "execute"]
    assert v["report"] == ["traced and compiled by jax 0.10.2", ["all_reduce"], stages, True]


def test_custom_derivative_rules_of_jax_under_our_transformations(seen):
    assert seen["rules"] == {"jvp": True, "vjp": True, "rungs": [["f", "grad", "vmap"], []]}


def test_nothing_runs_on_the_other_runtime_unasked(seen):
    m = seen["mixed"]
    assert "is a function of jax's and is given an array of xlab's" in m["jax function, our array"]
    assert "is a function of xlab's and is given an array of jax's" in m["our function, jax array"]
    assert "a function of JAX was given an xlab array" in m["jax jit, our array"]
    assert "arrays of both packages" in m["both arrays"]
    assert "uses names of jax and of xlab" in m["both packages"]
    assert "already specialized" in m["stage with arguments"]
    assert m["plain, ours"] == ""
    assert m["our maps"] == ""
    for name in ("plain, jax", "numbers", "partial", "static"):
        assert m[name] == "traced and compiled by jax 0.10.2", name
    assert "bind them first" in m["static steps"] and m["static time"] == 2
    for words in (m["nothing to step"], m["nothing to iterate"], *m["time"]):
        assert "given 0: a stage or a jaxpr of JAX's has none of its own" in words
    assert "takes 1 value, given 2" in m["too many"] and "given 2" in m["rungs of too many"]
    assert m["rungs"] == ["f", "grad"] and m["timed"] == [2] * 4
    assert "donated or deleted" in m["donated"]


def test_magics(seen):
    m = seen["magics"]
    assert m["result"] == ["ArrayImpl", True, True]
    by = "traced and compiled by jax 0.10.2"
    failed = [k for k, v in m.items() if isinstance(v, str) and v.startswith("FAILED")]
    assert not failed, m[failed[0]]
    assert by in m["%xjit GRAD(X, X)"] and "compile loss" in m["%xjit GRAD(X, X)"]
    assert EQUAL in m["%xstep GRAD(X, X)"] and "stepped by the rules of xlab" in m["%xstep GRAD(X, X)"]  # fmt: skip
    assert "all_reduce add" in m["%xflow total(wide)"]
    assert "no collectives" in m["%xflow loss(X, X)"]
    assert "stablehlo.dot_general" in m["%xhlo loss(X, X)"] and "optimized:" in m["%xhlo loss(X, X)"]  # fmt: skip
    passes = m["%xhlo loss(X, X) --passes"]
    assert passes.startswith(f"{by}, a second time for these passes") and "pipeline" in passes
    assert "transpose of dot_general" in m["%xladder loss(X, X) --rungs grad"]
    assert by in m["%xtime total(wide) --repeat 3"]
    for line in ("%xflow total(wide)", "%xflow loss(X, X)", "%xhlo loss(X, X)"):
        assert by in m[line], line
    assert "traced by jax 0.10.2, transformed by the rules of xlab" in m["%xladder loss(X, X) --rungs grad"]  # fmt: skip
    assert "peak" in m["%xmem total(wide)"]
    for magic in ("xjit", "xstep", "xflow", "xhlo", "xladder", "xtime", "xmem"):
        for form in ("jaxpr", "low", "comp"):
            assert "by jax 0.10.2" in m[f"%{magic} {form}(wide)"], (magic, form)
    assert by in m["%xmem total(wide)"]
    assert "1 equation" in m["%xjit low(wide)"] and "1 equation" in m["%xjit comp(wide)"]
    assert "JAX was imported before xlab" in m["standing in"] and "Restart" in m["standing in"]
    assert m["%xshard wide"].startswith("f32[8@data,4]")
    assert "add_any" in m["%xdiff loss(X, X) GRAD(X, X)"]
    assert "dot_general" in m["show(jax.make_jaxpr(loss)(X, X))"]
    assert by in m["%%xjit"] and "dot_general" not in m["%%xjit"].split("\n")[0]
    assert m["names"] == [[True], "3"] and m["cell"] is True
    assert m["reloaded"][0] and EQUAL in m["reloaded"][1]


def test_a_report_of_a_file(seen):
    for name, (code, text) in seen["command"].items():
        assert code == 0, (name, text)
        if name in ("lowered", "compiled"):
            assert "lowered and compiled by jax 0.10.2" in text, name
        elif name != "check":
            assert "traced and compiled by jax 0.10.2" in text and "warm" in text, name
        if name in ("f", "jitted", "jaxpr", "traced"):
            assert "dot_general" in text, name
    assert seen["command"]["check"][1] == "jaxpr: no findings\n"


def test_words_reach_a_page_escaped(seen):
    assert seen["pages"] is False
