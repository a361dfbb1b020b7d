"""What a program may do that need not be so: a file for each kind.

A file has one function, registered with `@kind`; `findings.py` imports them all, so that a new kind is a new file. The function yields findings of an
`Inspection` (`inspection.py`); a change is offered by `Inspection.offered`, which compiles the program with it first.
"""
