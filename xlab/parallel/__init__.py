"""Programs on several devices: `shard_map`, `pmap`, and moving data.

Reading order: `manual.py` (types and checks), `shard_map_primitive.py`, `per_device.py` and `by_operation.py` (bodies that run
operation by operation), `shard_map.py`, `pmap_arguments.py`, `pmap.py`, `put.py`, `assemble.py` (arrays made of parts), `replicate.py` (copies on devices),
`mesh_utils.py`. May import `transforms` and
the rooms below.

Also: `across.py` (arrays sharded over several processes), `array_files.py` (pytrees of arrays in a folder), `tensorstore_files.py` (arrays in files of TensorStore's), `checked.py` (`checkify` of a `shard_map`), `custom_partitioning.py` and
`partition_calls.py` (functions whose user says how they are split, and what the compiler calls for them),
`distributed.py` (several processes), `group.py` (the service and the members of a group), `gate.py` (what they agree on before programs over several processes), `hi_values.py` (`shard_map` of values of the user's own types), `host_local.py` (process-local and global arrays), `multihost.py` (communication
between processes), `launchers.py` (what Slurm, MPI and Kubernetes set in the environment), `rendezvous.py` (processes meet before they are joined), `partial_callbacks.py` (callbacks where some mesh axes are left to the compiler), `replica_mode.py` (what `pmap` had before it was a `shard_map`), `replicated_form.py` (a `shard_map` as a program of replicas), `smap.py` (a `shard_map` over one mesh axis), `topologies.py` (sets of devices to compile for), `transfers.py` (arrays that another process fetches).
"""
