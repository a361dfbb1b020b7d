"""Layouts of arrays, collectives with their reasons, and what other shardings would change.

`layout.py` (an array on devices), `intermediates.py` and `program_layouts.py` (values inside a program), `reasons.py` with `module_lines.py` and `traced_starts.py` (why the partitioner
moves data), `gradients.py` (of parameters and of data), `remedies.py` (what may help), `rows.py` with `whole_matrices.py` and `per_device.py` (what each device can do with its own rows), `collectives.py` with `matching.py` (what runs, and what decided on it), `collective_axes.py` (the axes that it goes along), `resharding.py` (from one layout to another), `experiment.py` with `retraced.py` (a program placed
otherwise), `advice.py` (what would remove a collective), `overlap.py` (what is computed while a collective is under way), `transfers.py` (all that of a program), `transposing.py` (its collectives backwards), `tree_layouts.py` (a pytree on devices), `whatif.py` (shardings side by side).
"""
