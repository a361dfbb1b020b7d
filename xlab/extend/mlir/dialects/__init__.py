"""The Python builders of MLIR's dialects, each loaded when first asked for, and a module to import.

What programs are lowered to: `stablehlo`, `chlo`, `func`, `builtin`, `sdy` (shardings), `mpmd` (several meshes); what kernels are written in: `arith`,
`math`, `vector`, `memref`, `scf`, `sparse_tensor`. Other dialects of jaxlib are attributes.

Example:
    >>> from xlab.extend.mlir.dialects import stablehlo as hlo
    >>> hlo.AddOp.OPERATION_NAME
    'stablehlo.add'
"""

from importlib import import_module as _import_module

_MODULES = ("arith", "builtin", "chlo", "func", "math", "memref", "mpmd", "scf", "sdy", "sparse_tensor", "stablehlo", "vector")  # fmt: skip


def __getattr__(name: str):
    if name.startswith("_"):
        raise AttributeError(f"module 'xlab.extend.mlir.dialects' has no attribute {name!r}")
    if name in _MODULES:
        return _import_module(f"xlab.extend.mlir.dialects.{name}")
    from xlab.backend.ir import dialect

    value = globals()[name] = dialect(name)
    return value


def __dir__():
    return sorted({*globals(), *_MODULES})
