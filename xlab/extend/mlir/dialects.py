"""The Python builders of MLIR's dialects: `stablehlo`, `chlo`, `func`, `sdy`, `arith`, `math`, ...

Example:
    >>> from xlab.extend.mlir.dialects import stablehlo as hlo
    >>> hlo.AddOp.OPERATION_NAME
    'stablehlo.add'
"""


def __getattr__(name: str):
    if name.startswith("_"):
        raise AttributeError(f"module 'xlab.extend.mlir.dialects' has no attribute {name!r}")
    from xlab.backend.ir import dialect

    value = globals()[name] = dialect(name)
    return value
