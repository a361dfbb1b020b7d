"""Programs of several meshes: the builders of the dialect `mpmd`."""

from xlab.backend.ir import dialect as _dialect

globals().update({k: v for k, v in vars(_dialect("mpmd")).items() if not k.startswith("_")})
