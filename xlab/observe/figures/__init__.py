"""Drawings of records: by matplotlib, as SVG with our own layout, or by Graphviz.

`plots.py` (phases and memory), `placements.py` (layouts and collectives), `drawing.py` (a figure as a file), `sugiyama.py` (a layered graph laid
out) and `graph.py` (a program as a graph).
"""

from xlab.observe.figures import graph as _graph  # these two register what they draw
from xlab.observe.figures import plots as _plots
