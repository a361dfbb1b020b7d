"""Records drawn: by matplotlib, as SVG with a layout of our own, or by Graphviz."""
