"""Mutable references: `new_ref`, `get`, `set`, `swap`, `addupdate`, `freeze`, and views."""

from xlab.core.refs import AbstractRef as AbstractRef
from xlab.core.refs import Ref as Ref
from xlab.lax.ref_functions import empty_ref as empty_ref
from xlab.lax.ref_functions import free_ref as free_ref
from xlab.lax.ref_functions import freeze as freeze
from xlab.lax.ref_functions import new_ref as new_ref
from xlab.lax.ref_functions import ref_addupdate as addupdate
from xlab.lax.ref_functions import ref_get as get
from xlab.lax.ref_functions import ref_set as set
from xlab.lax.ref_functions import ref_swap as swap
from xlab.lax.ref_functions import select_ref as select_ref
from xlab.lax.ref_views import TransformedRef as TransformedRef

__all__ = [
    "AbstractRef",
    "Ref",
    "TransformedRef",
    "addupdate",
    "empty_ref",
    "free_ref",
    "freeze",
    "get",
    "new_ref",
    "select_ref",
    "set",
    "swap",
]
