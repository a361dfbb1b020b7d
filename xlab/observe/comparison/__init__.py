"""How does a program compare with another one, or with itself on another machine?

`diff.py` (two programs) with `align.py` (aligns their lines), `targets.py` (a machine that need not be attached).
"""
