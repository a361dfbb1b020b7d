"""The primitives, one family a file, each primitive with all its rules in one block.

Reading order: `elementwise.py` (what such families share), `transcendental.py` (short and typical), `arithmetic.py`,
`shape.py`, `reductions.py`, `slicing.py`, `dot.py`; then `control/` and `collectives/`.
"""

from xlab.compile import dispatch as _dispatch
from xlab.lax.accuracy import *
from xlab.lax.approximate import *
from xlab.lax.arithmetic import *
from xlab.lax.bits import *
from xlab.lax.collectives import *
from xlab.lax.comparison import *
from xlab.lax.complexes import *
from xlab.lax.composite import *
from xlab.lax.constraint import with_sharding_constraint as with_sharding_constraint
from xlab.lax.control import *
from xlab.lax.conv_functions import *
from xlab.lax.convert import *
from xlab.lax.creation import *
from xlab.lax.cumulative import *
from xlab.lax.dot import *
from xlab.lax.fft import *
from xlab.lax.gather import *
from xlab.lax.precision import *
from xlab.lax.ragged import *
from xlab.lax.reduce_sum import reduce_sum_p
from xlab.lax.reducing import *
from xlab.lax.reductions import *
from xlab.lax.reshard import reshard_p as reshard_p
from xlab.lax.rng import *
from xlab.lax.scaled import *
from xlab.lax.scatter import *
from xlab.lax.shape import *
from xlab.lax.slicing import *
from xlab.lax.sort import *
from xlab.lax.special import *
from xlab.lax.special_bessel import *
from xlab.lax.special_incomplete import *
from xlab.lax.stacking import *
from xlab.lax.tile import *
from xlab.lax.tokens import *
from xlab.lax.transcendental import *
from xlab.lax.windows import *


def __getattr__(name: str):
    if name == "linalg":                    # imported when first used
        from importlib import import_module
        return import_module("xlab.lax.linalg")
    if name.endswith("_p"):                 # a primitive that its family's file keeps to itself
        import sys
        for module in [m for n, m in sorted(sys.modules.items()) if n.startswith("xlab.lax.")]:
            found = vars(module).get(name)
            if found is not None:
                return found
    from xlab.errors import no_attribute
    raise no_attribute("xlab.lax", name, globals())
