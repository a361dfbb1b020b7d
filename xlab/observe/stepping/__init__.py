"""What does each equation compute? A program run one equation at a time.

`frames.py` (nested programs), `devices.py` (bodies that are written per device), `kernels.py` (kernels per grid step), `machine.py` (runs equations), `values.py` (values
summarized), `breakpoints.py`, `snapshots.py` (where going back starts), `started.py` (what is stepped through), `stepper.py`, `first_difference.py` (two runs side by side), `replaying.py` (a collective step by step), `nan_path.py` (who made a NaN), `series.py` (one variable over a run); and
`debugger.py` (`debug.breakpoint`, a prompt in a running program).
"""
