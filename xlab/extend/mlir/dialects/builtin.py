"""Modules: the builders of the dialect `builtin`."""

from xlab.backend.ir import dialect as _dialect

globals().update({k: v for k, v in vars(_dialect("builtin")).items() if not k.startswith("_")})
