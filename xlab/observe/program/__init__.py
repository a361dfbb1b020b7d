"""What is the program? Its stages, names, equations and later forms, what each transformation and each pass of the compiler made of it.

`stages.py` (what a question concerns), `recorder.py` (a block of work), `names.py` (what people call values), `hlo.py` (compiled modules
read), `program.py`, `ladder.py` (a function under each transformation), `passes.py` and `pass_times.py` (the compiler's passes);
`analysis_only.py` (compiles that never run) and `memoize.py` (what was said once).
"""
