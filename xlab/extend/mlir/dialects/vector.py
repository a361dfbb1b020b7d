"""Vectors: the builders of the dialect `vector`."""

from xlab.backend.ir import dialect as _dialect

globals().update({k: v for k, v in vars(_dialect("vector")).items() if not k.startswith("_")})
