"""Arithmetic of scalars and vectors: the builders of the dialect `arith`."""

from xlab.backend.ir import dialect as _dialect

globals().update({k: v for k, v in vars(_dialect("arith")).items() if not k.startswith("_")})
