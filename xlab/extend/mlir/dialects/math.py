"""Elementary functions of scalars and vectors: the builders of the dialect `math`."""

from xlab.backend.ir import dialect as _dialect

globals().update({k: v for k, v in vars(_dialect("math")).items() if not k.startswith("_")})
