"""Functions and calls: the builders of the dialect `func`."""

from xlab.backend.ir import dialect as _dialect

globals().update({k: v for k, v in vars(_dialect("func")).items() if not k.startswith("_")})
