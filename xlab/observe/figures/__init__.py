"""Drawings of records: by matplotlib, as SVG with our own layout, or by Graphviz.

`figure.py` (any record as a file for a paper or a slide, and animations) stands on `sizes.py`, `listings.py` (what is set as text), `plots.py` (phases
and memory), `placements.py` (layouts and collectives), `costs.py` (a step, placements compared), `moves.py` (rounds of a collective) and `graph_figure.py`;
`drawing.py` (a figure as a record), `sugiyama.py` (a layered graph laid out) and `graph.py` (a program as a graph).
"""

from xlab.observe.figures import graph as _graph  # these two register what they draw
from xlab.observe.figures import plots as _plots
