"""Loaded by pytest before anything else (`-p tests.devices`): eight virtual CPU devices, for tests and doctests alike."""

import os

os.environ.setdefault("XLAB_NUM_CPU_DEVICES", "8")
os.environ.setdefault("MPLBACKEND", "agg")
