"""MLIR's objects: `Module`, `Type`, `Value`, `Location`, ...

Example:
    >>> from xlab.extend.mlir.ir import Context
"""


def __getattr__(name: str):
    if name.startswith("_"):
        raise AttributeError(f"module 'xlab.extend.mlir.ir' has no attribute {name!r}")
    from xlab.backend.ir import objects

    value = globals()[name] = getattr(objects(), name)
    return value
