"""Operations that decompose into StableHLO: the builders of the dialect `chlo`."""

from xlab.backend.ir import dialect as _dialect

globals().update({k: v for k, v in vars(_dialect("chlo")).items() if not k.startswith("_")})
