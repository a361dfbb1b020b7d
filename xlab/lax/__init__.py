"""The primitives, one family a file, each primitive with all its rules in one block.

Reading order: `elementwise.py` (what such families share), `transcendental.py` (short and typical), `arithmetic.py`,
`shape.py`, `reductions.py`, `slicing.py`, `dot.py`; then `control/` and `collectives/`.
"""

from xlab.compile import dispatch as _dispatch  # noqa: F401  (how primitives run eagerly)
from xlab.lax.shape import *  # noqa: F403  (each family lists its public names in __all__)
from xlab.lax.reduce_sum import reduce_sum_p
from xlab.lax.convert import *  # noqa: F403
from xlab.lax.comparison import *  # noqa: F403
from xlab.lax.bits import *  # noqa: F403
from xlab.lax.arithmetic import *  # noqa: F403
from xlab.lax.transcendental import *  # noqa: F403
from xlab.lax.complexes import *  # noqa: F403
from xlab.lax.special import *  # noqa: F403
from xlab.lax.slicing import *  # noqa: F403
from xlab.lax.dot import *  # noqa: F403
from xlab.lax.reductions import *  # noqa: F403
from xlab.lax.collectives import *  # noqa: F403
from xlab.lax.constraint import with_sharding_constraint as with_sharding_constraint
from xlab.lax.gather import *  # noqa: F403
from xlab.lax.scatter import *  # noqa: F403
from xlab.lax.sort import *  # noqa: F403
from xlab.lax.cumulative import *  # noqa: F403
from xlab.lax.windows import *  # noqa: F403
from xlab.lax.control import *  # noqa: F403
