"""How does a program compare with another one, or with itself on another machine?

`diff.py` (two programs) with `align.py` (which lines stand beside each other), `targets.py` (a machine that need not be there).
"""
