"""Passes of one's own in the compiler, and contexts for modules of one's own."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.config import config
from xlab.extend import lowering, xla
from xlab.extend.mlir import ir

STAGES = tuple(xla.PipelineStage)


@pytest.fixture
def passes():
    """Registers passes, and takes them away at the end."""
    names = []

    def register(callback, name, **options):
        names.append((name, options.get("stage", STAGES[0])))
        xla.register_hlo_module_transformation(callback, name=name, **options)

    yield register
    for name, stage in names:
        xla.clear_hlo_module_transformation(name, stage)


def test_a_pass_changes_programs_that_are_compiled_from_now_on(passes):
    def f(x):
        return jnp.cos(x) * 2

    before = xlab.jit(f)
    assert np.allclose(before(0.0), 2)
    # The instructions of the module are called by their opcodes, which here have the same length.
    passes(lambda m: m.replace(b"cosine", b"negate") if b"cosine" in m else None, "negated")
    assert np.allclose(before(0.0), 2)  # compiled already
    assert np.allclose(xlab.jit(lambda x: f(x) + 1)(3.0), -5)
    assert xla.clear_hlo_module_transformation("negated")
    assert not xla.clear_hlo_module_transformation("negated")
    assert np.allclose(xlab.jit(lambda x: f(x) + 3)(0.0), 5)


def test_passes_run_in_order_at_both_stages(passes):
    ran = []
    for name, stage in (("c", STAGES[1]), ("a", STAGES[0]), ("b", STAGES[0])):
        passes(lambda m, name=name: ran.append(name), name, stage=stage, platforms=["cpu", "cpu"])
    xlab.jit(lambda x: jnp.sin(x) * 5)(1.0)
    assert "".join(dict.fromkeys(ran)) == "abc"


def test_what_a_pass_raises_ends_the_compilation(passes):
    def fails(module):
        raise ValueError("not this one")

    passes(fails, "fails")
    with pytest.raises(xlab.errors.JaxRuntimeError, match="not this one"):
        xlab.jit(lambda x: jnp.sin(x) * 6)(1.0)


@pytest.fixture
def folder(tmp_path):
    names = "compilation_cache_dir", "persistent_cache_min_compile_time_secs"
    before = [getattr(config, n) for n in names]
    for name, value in zip(names, (str(tmp_path), 0.0), strict=True):
        config.update(name, value)
    yield tmp_path
    for name, value in zip(names, before, strict=True):
        config.update(name, value)


def test_programs_of_a_pass_are_not_stored(passes, folder):
    def program():
        return xlab.jit(lambda x: jnp.cos(x) * 8)

    passes(lambda m: m.replace(b"cosine", b"negate"), "negated")
    assert np.allclose(program()(1.0), -8)
    assert not list(folder.iterdir())
    xla.clear_hlo_module_transformation("negated")
    assert np.allclose(program()(0.0), 8)
    assert list(folder.iterdir())
    passes(lambda m: m.replace(b"cosine", b"negate"), "negated")
    assert np.allclose(program()(1.0), -8)


@pytest.mark.parametrize(
    ("kind", "words", "act"),
    [
        (TypeError, "function of the bytes", lambda r: r(3, name="a")),
        (TypeError, "name of a pass", lambda r: r(len, name=3)),
        (TypeError, "PRE_SCHEDULER or", lambda r: r(len, name="a", stage=0)),
        (RuntimeError, "moon", lambda r: r(len, name="a", platforms="moon")),
    ],
)
def test_error(kind, words, act):
    with pytest.raises(kind, match=words):
        act(xla.register_hlo_module_transformation)


def test_a_context_of_ones_own():
    text = "func.func @main(%a: tensor<2xf32>) { %0 = stablehlo.sine %a : tensor<2xf32> return }"
    with lowering.JaxIrContext() as context, ir.Location.unknown():
        assert isinstance(context, ir.Context)
        assert "stablehlo.sine" in str(ir.Module.parse(text))
    plain = ir.Context()
    plain.append_dialect_registry(lowering.upstream_dialects)
    with plain:
        assert "func.func" in str(ir.Module.parse("func.func @main() { return }"))
    with pytest.raises(AttributeError, match="nothing"):
        _ = lowering.nothing


def test_what_a_rule_is_given_is_one_class():
    from xlab.interpreters import mlir

    assert lowering.LoweringRuleContext is mlir.LoweringRuleContext
