"""Random numbers from explicit keys: the same key gives the same numbers, on any number of devices.

Reading order: `keys.py` (what a key is and how new ones are made), `threefry.py` (how bits come from a key and a counter),
`bits.py` (the primitives), `drawing.py` (shared by distributions), `uniforms.py`, `continuous.py`, `discrete.py`, `gamma.py`, `poisson.py`,
`matrices.py`.
Imports what is below it.

Also: `binomial.py` (binomial and multinomial numbers, by two methods), `custom.py` (generators of the user's), `rbg.py` (keys of the compiler's own
generator), `reuse.py` (key reuse checks).
"""

from xlab.random import reuse as _reuse  # has keys followed
from xlab.random.binomial import *
from xlab.random.bits import (
    random_bits_p,
    random_fold_in_p,
    random_seed_p,
    random_split_p,
    random_unwrap_p,
    random_wrap_p,
)
from xlab.random.continuous import *
from xlab.random.discrete import *
from xlab.random.gamma import *
from xlab.random.gamma import random_gamma_p
from xlab.random.keys import *
from xlab.random.poisson import *
from xlab.random.threefry import threefry2x32_p

_LATER = "multivariate_normal", "orthogonal"  # with linear algebra, imported when first used

__all__ = sorted({*(name for name in globals() if not name.startswith("_")), *_LATER})


def __dir__():
    return sorted({*globals(), *_LATER})


def __getattr__(name: str):
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module("xlab.random.matrices"), name)
    from xlab.errors import no_attribute

    raise no_attribute("xlab.random", name, globals())
