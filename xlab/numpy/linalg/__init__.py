"""Linear algebra under the names of `numpy.linalg`.

Reading order: `norms.py`, `products.py`, `decompositions.py`, `systems.py` (solutions, inverses), `determinants.py`.
"""

from xlab.numpy.linalg.decompositions import *
from xlab.numpy.linalg.determinants import *
from xlab.numpy.linalg.norms import *
from xlab.numpy.linalg.products import *
from xlab.numpy.linalg.systems import *


def __getattr__(name: str):
    import difflib
    near = difflib.get_close_matches(name, [n for n in globals() if not n.startswith("_")], n=3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise AttributeError(f"module 'xlab.numpy.linalg' has no attribute {name!r}.{hint}")
