"""Which arrays are alive now, and which line made them?

`live.py`; `allocation_sites.py` knows the lines.
"""
