"""Programs on several devices: `shard_map`, `pmap`, and putting data where it belongs.

Reading order: `manual.py` (types and checks), `shard_map.py`, `pmap.py`, `put.py`, `assemble.py` (arrays made of parts),
`mesh_utils.py`. May import `transforms` and
the rooms below.

Also: `across.py` (values that lie over the devices of several processes), `checked.py` (`checkify` of a `shard_map`),
`distributed.py` (several processes), `host_local.py` (what each process has of a value), `multihost.py` (several
processes as one), `smap.py` (a `shard_map` over one mesh axis), `topologies.py` (sets of devices to compile for).
"""
