"""What programs are lowered to: the builders of the dialect `stablehlo`."""

from xlab.backend.ir import dialect as _dialect

globals().update({k: v for k, v in vars(_dialect("stablehlo")).items() if not k.startswith("_")})
