"""Sparse tensors: the builders of the dialect `sparse_tensor`."""

from xlab.backend.ir import dialect as _dialect

globals().update(
    {k: v for k, v in vars(_dialect("sparse_tensor")).items() if not k.startswith("_")}
)
