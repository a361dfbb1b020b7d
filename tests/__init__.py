"""Tests mirror the package: `xlab/core/jaxpr.py` has `tests/core/test_jaxpr.py`."""
