"""The runtime's own primitives under JAX's names: `add_p`, `dot_general_p`, `scan_p`, `jit_p`, ...

Example:
    >>> from xlab.extend.core.primitives import sin_p
    >>> sin_p
    sin
"""

from importlib import import_module as _import_module

# Where primitives are that a file of `lax` or another room does not hand on to `xlab.lax`.
_ROOMS = (
    "xlab.lax",
    "xlab.lax.linalg",
    "xlab.compile.jit",
    "xlab.custom_derivatives",
    "xlab.ad_checkpoint",
    "xlab.random",
    "xlab.parallel.put",
    "xlab.lax.call",
)
_OTHER_NAMES = {
    "add_jaxvals_p": "add_any",
    "remat_p": "remat2",
    "name_p": "name",
    "psum_p": "psum",
    "jit_p": "jit",
}


def __getattr__(name: str):
    if not name.endswith("_p"):
        raise AttributeError(f"module 'xlab.extend.core.primitives' has no attribute {name!r}")
    from xlab.core.primitive import all_primitives

    for room in _ROOMS:
        found = getattr(_import_module(room), name, None)
        if found is not None:
            return found
    wanted = _OTHER_NAMES.get(name, name.removesuffix("_p"))
    for primitive in all_primitives():
        if primitive.name == wanted and primitive.module.startswith("xlab/"):
            return primitive
    raise AttributeError(f"there is no primitive {name!r}")
