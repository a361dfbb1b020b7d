"""What a program may do that need not be so: a file for each kind.

A file has one function, registered with `@kind`; `findings.py` imports them all, so that a new kind is a new file and its word here. The function yields
findings of an `Inspection` (`inspection.py`); a change is offered by `Inspection.offered`, which compiles the program with it first.

What a call takes and gives: `arguments.py`, `constants.py`, `results.py`, `donations.py`. What it computes: `widened.py`, `unrolled.py`, `residuals.py`,
`layouts.py`, `host.py`, `recompiles.py`. What lies on several devices: `collectives.py`, `loop_gathers.py`, `replicated.py`, `uneven.py`.
"""
