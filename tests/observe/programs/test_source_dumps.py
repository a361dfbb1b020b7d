"""Source maps: their numbers, and that each printed form leads to the lines that it comes from."""

import json

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.experimental import source_mapper
from xlab.experimental.source_mapper import MappingsGenerator, SourceMap

X = np.ones((2, 3), np.float32)


def wave(x):
    def body(carry, row):
        return carry + jnp.cos(row), carry * row  # rows

    last, rows = xlab.lax.scan(body, jnp.zeros(3), x)
    return last, jnp.sin(rows)  # whole


def places(dump):
    """Per printed line the segments with numbers from the beginning of the files: the inverse of the generator."""
    sums = [0] * 5
    out = []
    for line in dump.source_map.mappings:
        sums[0] = 0
        found = []
        for segment in line:
            for i, n in enumerate(segment):
                sums[i] += n
            found.append(tuple(sums[: len(segment)]))
        out.append(found)
    return out


def lines_of(dump, word):
    """The source lines that lines of the printed text with a word lead to."""
    (content,) = dump.source_map.sources_content
    lines = content.splitlines()
    assert dump.source_map.sources == [__file__]
    return {
        lines[found[0][2]].strip()
        for printed, found in zip(dump.generated_code.splitlines(), places(dump), strict=True)
        if word in printed and found
    }


@pytest.mark.parametrize(("name", "cos", "sin"), [("jaxpr", " = cos ", " = sin "), ("hlo:stable-hlo", "stablehlo.cosine", "stablehlo.sine"),
                                             ("hlo:original", " cosine(", " sine("), ("hlo:optimized", " cosine(", " sine(")])  # fmt: skip
def test_forms_lead_to_their_lines(name, cos, sin):
    (dump,) = source_mapper.generate_sourcemaps(wave, source_mapper.filter_passes(f"{name}$"))(X)
    assert dump.pass_name == name
    assert lines_of(dump, cos) == {"return carry + jnp.cos(row), carry * row  # rows"}
    assert lines_of(dump, sin) == {"return last, jnp.sin(rows)  # whole"}
    assert SourceMap.from_json(dump.source_map.to_json()) == dump.source_map


def test_jaxprs_are_those_printed_and_inner_equations_stand_in_outer_ones():
    jitted = xlab.jit(wave)
    (dump,) = source_mapper.generate_sourcemaps(jitted, source_mapper.filter_passes("jaxpr"))(X)
    text = str(xlab.make_jaxpr(jitted)(X))
    assert dump.generated_code == text
    found = places(dump)
    for printed, segments in zip(text.splitlines(), found, strict=True):
        assert not segments or segments[0][0] == len(printed) - len(printed.lstrip())
    # A parameter printed on a line of its own belongs to its equation.
    scan, length = (lines_of(dump, word) for word in (" = scan[", "length=2"))
    assert scan == length == {"last, rows = xlab.lax.scan(body, jnp.zeros(3), x)"}
    # Equations of a program on one line have columns of their own, and what is behind the last comes from nowhere.
    (flat,) = source_mapper.generate_sourcemaps(
        lambda x: jnp.sin(jnp.cos(x)), source_mapper.filter_passes("jaxpr")
    )(1.0)
    (line,) = places(flat)
    starts = [flat.generated_code.index(word) for word in ("b:f32", "; c:f32", "c:f32", " in (c")]
    assert [s[0] for s in line] == [starts[0], starts[1], starts[2], starts[3] + 1]
    assert [len(s) for s in line] == [4, 1, 4, 1]


def test_segments_count_from_those_before():
    made = MappingsGenerator()
    with pytest.raises(RuntimeError, match="new_group"):
        made.new_segment(1)
    made.new_group()
    made.new_segment(4, 0, 10, 3)
    made.new_segment(8, 0, 9, 2, 5)
    made.new_segment(12)
    made.new_group()
    made.new_group()
    made.new_segment(2, 1, 3, 4, 1)
    assert made.mappings() == [
        [(4, 0, 10, 3), (4, 0, -1, -1, 5), (4,)],
        [],
        [(2, 1, -6, 2, -4)],
    ]
    text = SourceMap(3, ["a.py", "b.py"], ["x", "y"], ["n"], made.mappings()).to_json()
    assert json.loads(text)["mappings"] == "IAUG,IADDK,I;;ECNEJ"
    assert SourceMap.from_json(text).mappings == made.mappings()
    with pytest.raises(ValueError, match=r"1 number .*given 2"):
        made.new_segment(2, 1)


@pytest.mark.parametrize(("data", "words"), [
    ('{"sources": [], "mappings": ""}', "without version"),
    ('{"version": 2, "sources": [], "mappings": ""}', "version 2"),
    ('{"version": 3, "sources": [], "mappings": "A?"}', "'[?]' in the segment 'A[?]'"),
    ('{"version": 3, "sources": [], "mappings": "AAgg"}', "ends within a number"),
    ("[", "Expecting value"),
])  # fmt: skip
def test_what_is_no_map_is_refused(data, words):
    with pytest.raises(ValueError, match=words):
        SourceMap.from_json(data)


def test_passes_can_be_added_and_have_arguments(monkeypatch):
    from xlab.observe.programs import source_dumps

    monkeypatch.setattr(source_dumps, "_passes", dict(source_dumps._passes))

    def made(work_dir, f, args, kwargs, *, shout=False):
        return str(xlab.make_jaxpr(f)(*args, **kwargs)), shout

    def printed(given, **_):
        text, shout = given
        empty = SourceMap(3, [], [], [], [])
        return source_mapper.SourceMapDump(empty, text.upper() if shout else text, "mine")

    source_mapper.register_pass(source_mapper.Pass("mine", made, printed))
    with pytest.raises(ValueError, match="'mine' already"):
        source_mapper.register_pass(source_mapper.Pass("mine", made, printed))
    dumps = source_mapper.generate_sourcemaps(
        wave, source_mapper.filter_passes("mine"), shout=True
    )(X)
    assert "= SCAN[" in dumps[0].generated_code and dumps[0].pass_name == "mine"


def test_locations_of_mlir():
    text = (
        "module {\n"
        '  func.func @main(%a: tensor<f32> loc("args[0]")) -> tensor<f32> {\n'
        "    %0 = stablehlo.sine %a : tensor<f32> loc(#loc5)\n"
        '    %1 = stablehlo.cosine %0 : tensor<f32> loc(fused[#loc, "b.py":3:2])\n'
        "    return %1 : tensor<f32> loc(#loc)\n"
        "  } loc(#loc)\n"
        "}\n"
        "#loc = loc(unknown)\n"
        '#loc1 = loc("a.py":8:5 to :9)\n'
        '#loc2 = loc("a.py":1:1)\n'
        '#loc3 = loc("f \\"x\\":1:2"(#loc1))\n'
        "#loc4 = loc(callsite(#loc3 at #loc2))\n"
        '#loc5 = loc("jit(f)/sin"(#loc4))\n'
    )
    found = source_mapper.create_mlir_sourcemap(text)
    assert found.sources == ["a.py", "b.py"]
    assert [line for line in found.mappings if line] == [[(4, 0, 7, 4)], [(4, 1, -5, -3)]]
    own = xlab.jit(wave).lower(X).as_text(debug_info=True)
    assert source_mapper.create_mlir_sourcemap(own).sources == [__file__]


def test_compiling_with_options():
    source_mapper.compile_with_env(
        jnp.sin, (1.0,), {}, {"jax_enable_x64": True}, {"xla_cpu_enable_fast_math": True}
    )
    with pytest.raises(Exception, match="no_such_option"):
        source_mapper.compile_with_env(jnp.sin, (1.0,), {}, {}, {"no_such_option": True})


@pytest.mark.parametrize("compiled", [False, True])
def test_the_text_of_a_compiler_leads_to_the_same_lines(compiled):
    lowered = xlab.jit(wave).lower(X)
    text = lowered.compile().as_text() if compiled else lowered.as_text("hlo")
    dump = source_mapper.SourceMapDump(source_mapper.hlo.parse_hlo_dump(text), text, "a dump")
    assert lines_of(dump, " cosine(") == {"return carry + jnp.cos(row), carry * row  # rows"}
    assert lines_of(dump, " sine(") == {"return last, jnp.sin(rows)  # whole"}
    older = '%a = f32[] add(%b, %c), metadata={op_name="add" source_file="a.py" source_line=3 source_column=5}\n%d = f32[] parameter(0)'
    found = source_mapper.hlo.parse_hlo_dump(older)
    assert (found.sources, found.mappings) == (["a.py"], [[(0, 0, 2, 4)], []])


def test_names_by_their_modules():
    for module in ("common", "generate_map", "hlo", "jaxpr", "mlir"):
        part = getattr(source_mapper, module)
        for name in part.__all__:
            assert getattr(source_mapper, name, getattr(part, name)) is getattr(part, name)
