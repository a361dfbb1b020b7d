"""Functions whose user says how they are split over devices.

Example:
    >>> double = custom_partitioning(lambda x: x * 2)
    >>> double.def_partition(
    ...     lambda mesh, args, result: (mesh, lambda x: x * 2, result.sharding, (args[0].sharding,)),
    ...     sharding_rule="... -> ...",
    ... ).__name__
    '<lambda>'
    >>> float(double(3.0))
    6.0
"""

from xlab.parallel.custom_partitioning import (
    BATCHING,
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
    custom_partitioning,
    custom_partitioning_p,
)

__all__ = [
    "BATCHING",
    "ArrayMapping",
    "CompoundFactor",
    "SdyShardingRule",
    "custom_partitioning",
    "custom_partitioning_p",
]
