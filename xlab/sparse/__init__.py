"""Sparse arrays and functions of them: `xlab.experimental.sparse`.

Reading order: `base.py` (the class of all, and what is known of indices), `bcoo.py` (batched coordinates and their layout), `primitive.py` (a
primitive from how it is computed), `dense.py` (to and from dense arrays), `order.py` (sorting, duplicates, transposes, layouts), `products.py`
and `elementwise.py` (products), `shape.py` (slices, reshapes, sums), `conv.py` (convolutions), `bcsr.py` (batched compressed
rows), `matrices.py` (COO, CSR, CSC), `transform.py` (`sparsify`), `rules.py` (its rules), `methods.py` (operators and methods),
`creation.py` (`eye`, `empty`, random arrays), `derivatives.py` (`grad` and its relatives), `host_lu.py` (elimination on the host),
`linalg.py` (solvers).
"""

from xlab.sparse import linalg, methods
from xlab.sparse.base import (
    CuSparseEfficiencyWarning,
    JAXSparse,
    SparseEfficiencyError,
    SparseEfficiencyWarning,
    SparseInfo,
)
from xlab.sparse.bcoo import BCOO
from xlab.sparse.bcsr import *
from xlab.sparse.conv import *
from xlab.sparse.creation import *
from xlab.sparse.dense import *
from xlab.sparse.derivatives import *
from xlab.sparse.elementwise import *
from xlab.sparse.matrices import *
from xlab.sparse.order import *
from xlab.sparse.products import (
    bcoo_dot_general,
    bcoo_dot_general_p,
    bcoo_dot_general_sampled,
    bcoo_dot_general_sampled_p,
    bcoo_spdot_general_p,
)
from xlab.sparse.shape import *
from xlab.sparse.transform import SparseTracer, sparse_rules, sparsify
