"""Where does a step go? Costs of equations on a machine, summed by line, by call and in all.

In reading order: `machines.py` (what a device can do: as measured here, as its maker states it, or round numbers that say so),
`rates.py` (programs whose times say how fast single operations are), `calibration.py` (measuring this machine), `flattened.py` (a program as the
operations that remain of it when neighbours are fused), `call_tree.py` (the program by its own structure), `step_cost.py` (all of it as one record),
`patterns.py` (what is known by a name), `transfers.py` (the collectives of a program, with these names), `measures.py` (what is read from a program before and after a change), `inspection.py` (a program as it is
looked at), `structures.py` (one structure for the arguments of all calls), `kinds/` (what could be otherwise, a file for each), `findings.py` (all
of them); `timeline.py` (what every device did during one measured step).
"""
