"""Programs on several devices: `shard_map`, `pmap`, and putting data where it belongs.

Reading order: `manual.py` (types and checks), `shard_map.py`, `pmap.py`, `put.py`, `assemble.py` (arrays made of parts),
`mesh_utils.py`. May import `transforms` and
the rooms below.
"""
