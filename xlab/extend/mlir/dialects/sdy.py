"""Meshes and shardings: the builders of the dialect `sdy`."""

from xlab.backend.ir import dialect as _dialect

globals().update({k: v for k, v in vars(_dialect("sdy")).items() if not k.startswith("_")})
