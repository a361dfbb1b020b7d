"""Set before anything is imported: eight virtual CPU devices, for tests and for doctests alike."""

import os

os.environ.setdefault("XLAB_NUM_CPU_DEVICES", "8")
os.environ.setdefault("MPLBACKEND", "agg")
