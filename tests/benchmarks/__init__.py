"""Speed against the reference: `python -m tests.benchmarks [--quick] [--only WORD] [--json PATH]`.

Both sides run in alternating fresh processes of one run; medians are compared as ratios with the goals. Reading
order: `cases.py` (what is measured, written once against the namespace of either side), `arrays.py`, `processes.py` and
`linen.py` (more of it), `programs.py` (the programs traced), `measure.py` (one process: names in, seconds out),
`__main__.py` (the alternation and the table).
"""
