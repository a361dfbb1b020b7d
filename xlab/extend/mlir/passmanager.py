"""MLIR's passes: `PassManager`.

Example:
    >>> from xlab.extend.mlir.passmanager import PassManager
"""


def __getattr__(name: str):
    if name.startswith("_"):
        raise AttributeError(f"module 'xlab.extend.mlir.passmanager' has no attribute {name!r}")
    from xlab.backend.ir import passes

    value = globals()[name] = getattr(passes(), name)
    return value
