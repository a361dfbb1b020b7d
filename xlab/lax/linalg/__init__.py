"""Linear algebra: decompositions and solutions of systems, each a primitive over LAPACK with its derivative.

Reading order: `common.py` (calling LAPACK, products of matrices), `triangular.py`, `cholesky.py`, `lu.py`, `qr.py`, `eigh.py`,
`eig.py`, `svd.py`, `schur.py` (and Hessenberg and tridiagonal form), `banded.py` (tridiagonal systems), `polar.py`.
"""

from xlab.lax.linalg.banded import *
from xlab.lax.linalg.cholesky import *
from xlab.lax.linalg.eig import *
from xlab.lax.linalg.eigh import *
from xlab.lax.linalg.lu import *
from xlab.lax.linalg.polar import *
from xlab.lax.linalg.qr import *
from xlab.lax.linalg.schur import *
from xlab.lax.linalg.svd import *
from xlab.lax.linalg.triangular import *
