"""Clusters of vectors: `vq`."""

from xlab.scipy.cluster import vq as vq

__all__ = ["vq"]
