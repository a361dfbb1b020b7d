"""Sparse arrays: `BCOO` (batched coordinates), `BCSR` (batched compressed rows), and functions of them.

The same by the paths that programs import: `bcoo.py`, `bcsr.py`, `coo.py`, `csr.py`, `linalg.py` (solvers), `transform.py` (`sparsify`), `ad.py`
(derivatives), `api.py` (arrays of any kind), `random.py`, `util.py` (warnings).

Example:
    >>> import xlab.numpy as jnp
    >>> A = BCOO.fromdense(jnp.array([[0., 1., 0.], [2., 0., 3.]]))
    >>> (A @ jnp.ones(3)).tolist(), (2 * A).T.todense().tolist()
    ([1.0, 5.0], [[0.0, 4.0], [2.0, 0.0], [0.0, 6.0]])
"""

from xlab.sparse import *

# After all names, for the room has files of the same words.
from xlab.experimental.sparse import ad, api, bcoo, bcsr, coo, csr, linalg, random, transform, util  # isort: skip
