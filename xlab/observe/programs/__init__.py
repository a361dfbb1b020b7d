"""What is the program? Its stages, names and equations, and the result of each transformation and compiler pass.

`stages.py` (a program and its compiled forms), `stage_function.py` (a compiled form as a function), `view_jits.py` (the jits that views make of functions), `values_read.py` (what a function reads), `recorder.py` (records a block), `names.py` (names of values), `modules.py` (modules of a model as scopes), `hlo.py` (compiled modules
read), `program.py`, `ladder.py` and `ladder_forms.py` (a function under each transformation), `passes.py` and `pass_times.py` (the compiler's passes);
`source_map.py` and `source_dumps.py` (printed forms with the places that their lines come from); `rewriting.py` (a program with a change), `signatures.py` (a program that takes or gives something else); `analysis_only.py` (compiles that never run) and `memoize.py` (caches records).
"""
