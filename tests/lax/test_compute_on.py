"""Annotations of operations: they survive inner programs, and modules that have them are what others are."""

import re

import numpy as np

import xlab
import xlab.numpy as jnp
from xlab import lax, observe
from xlab.experimental.compute_on import compute_on
from xlab.experimental.xla_metadata import set_xla_metadata

X = np.arange(4, dtype=np.float32)


def annotated(f, *args):
    text = xlab.jit(f).lower(*args).as_text()
    return re.findall(r"stablehlo\.(\w+)[ (].*frontend_attributes = \{([^}]*)\}", text)


def test_inner_programs_have_the_annotations_too():
    @xlab.jit
    def shared(x):
        return jnp.sin(x)

    def f(x):
        with set_xla_metadata(a=1):
            y = lax.cond(x[0] > 0, shared, jnp.cos, x)
        return shared(y)

    found = dict(annotated(f, X))
    assert found["sine"] == found["cosine"] == 'a = "1"'
    text = xlab.jit(f).lower(X).as_text()
    assert len(re.findall(r"stablehlo\.sine .* : tensor", text)) == 2
    assert len(re.findall(r"stablehlo\.sine .*frontend_attributes", text)) == 1


def test_scopes_within_keep_them_and_the_block_ends():
    def f(x):
        with compute_on("device_host"):
            with xlab.named_scope("inner"):
                y = jnp.sin(x)
        return jnp.cos(y)

    assert annotated(f, X) == [("sine", '_xla_compute_type = "host"')]
    equations = observe.program(f, X).equations
    assert [e.scope for e in equations] == ["compute_on(device_host)/inner", ""]


def test_the_text_is_written_as_that_of_other_modules():
    def f(x):
        with compute_on("device_host"):
            return jnp.sin(x).sum()

    plain = xlab.jit(lambda x: jnp.sin(x).sum(), name="f").lower(X)
    marked = xlab.jit(f).lower(X)
    for debug_info in (False, True):
        text = marked.as_text(debug_info=debug_info)
        assert ";a0" not in text and 'loc("-"' not in text and "loc(unknown)" not in text
        assert text.count(" loc(") == plain.as_text(debug_info=debug_info).count(" loc(")
    ids = [e.id for e in observe.program(marked).equations]
    links = {
        i for level in observe.program(marked).levels for _, numbers in level.links for i in numbers
    }
    assert set(ids) <= links
    np.testing.assert_allclose(marked.compile()(X), np.sin(X).sum(), rtol=1e-6)


def test_names_and_values_that_need_quotes():
    with_quotes = annotated(lambda x: set_xla_metadata(jnp.sin(x), **{"a b": 'c"d'}), X)
    assert with_quotes == [("sine", '"a b" = "c\\"d"')] or with_quotes == [
        ("sine", '"a b" = "c\\22d"')
    ]
