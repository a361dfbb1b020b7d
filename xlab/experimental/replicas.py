"""Programs of replicas, the former shape of programs for many devices, to look at beside that of partitions."""

from xlab.parallel.replicated_form import LoweredReplicas, lower_replicas

__all__ = ["LoweredReplicas", "lower_replicas"]
