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

# After all names, and each as a file of its own: `from` would find the room's files of the same words, which the line above brought.
import xlab.experimental.sparse.ad as ad  # isort: skip
import xlab.experimental.sparse.api as api  # isort: skip
import xlab.experimental.sparse.bcoo as bcoo  # isort: skip
import xlab.experimental.sparse.bcsr as bcsr  # isort: skip
import xlab.experimental.sparse.coo as coo  # isort: skip
import xlab.experimental.sparse.csr as csr  # isort: skip
import xlab.experimental.sparse.linalg as linalg  # isort: skip
import xlab.experimental.sparse.random as random  # isort: skip
import xlab.experimental.sparse.transform as transform  # isort: skip
import xlab.experimental.sparse.util as util  # isort: skip
