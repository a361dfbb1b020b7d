"""Buffers: the builders of the dialect `memref`."""

from xlab.backend.ir import dialect as _dialect

globals().update({k: v for k, v in vars(_dialect("memref")).items() if not k.startswith("_")})
