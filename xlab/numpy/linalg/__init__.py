"""Linear algebra under the names of `numpy.linalg`.

Reading order: `norms.py`, `tensor_contractions.py`, `decompositions.py`, `systems.py` (solutions, inverses), `determinants.py`.

Also: `products.py` (products in the forms of the array API).
"""

from xlab.numpy.linalg.decompositions import *
from xlab.numpy.linalg.determinants import *
from xlab.numpy.linalg.norms import *
from xlab.numpy.linalg.products import *
from xlab.numpy.linalg.systems import *


def __getattr__(name: str):
    from xlab.errors import no_attribute

    raise no_attribute("xlab.numpy.linalg", name, globals())
