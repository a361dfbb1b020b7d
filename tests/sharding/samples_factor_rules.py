"""Factors of dimensions, as rules of `custom_partitioning` are made of, beside those of the reference."""

from __future__ import annotations

from importlib import import_module

from tests.reference.sample import Sample

LAWS = False  # no functions of arrays


def row(name, f, **options):
    return Sample(name, lambda n: f(import_module(f"{n.name}.experimental.custom_partitioning")), transforms=("eager",), **options)


def mapping(name, *dims, error=None):
    """A mapping of dimensions; tuples become compound factors and "..." the batching dimension."""

    def made(c):
        said = [c.CompoundFactor(*d) if isinstance(d, tuple) else d.replace("...", c.BATCHING) if isinstance(d, str) else d for d in dims]
        m = c.ArrayMapping(*said)
        return tuple(m), len(m), isinstance(m, tuple), m == c.ArrayMapping(*said), [type(d).__name__ for d in m]

    return row(name, made, error=error)


SAMPLES = [
    mapping("none"),
    mapping("one", "i"),
    mapping("several", "i", "j_2", "k"),
    mapping("compound", ("i", "j"), "k"),
    mapping("batching", "...", "i"),
    mapping("batching_group", "...1", "i"),
    mapping("batching_alone", "..."),
    mapping("same_twice", "i", "i"),
    mapping("batching_behind", "i", "...", error="ValueError"),
    mapping("batching_of_words", "...x", error="ValueError"),
    mapping("begins_with_a_number", "1i", error="ValueError"),
    mapping("a_sign", "i-j", error="ValueError"),
    row("a_compound_factor_of_one", lambda c: c.CompoundFactor("i"), error="ValueError"),
    row("in_a_rule", lambda c: str(c.SdyShardingRule((c.ArrayMapping("i", "k"), c.ArrayMapping("k", "j")), (c.ArrayMapping("i", "j"),)))),
]  # fmt: skip
