"""Structured control flow: the builders of the dialect `scf`."""

from xlab.backend.ir import dialect as _dialect

globals().update({k: v for k, v in vars(_dialect("scf")).items() if not k.startswith("_")})
