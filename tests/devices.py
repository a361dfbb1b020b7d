"""Loaded by pytest before anything else (`-p tests.devices`), for tests and doctests alike: eight virtual CPU devices, and whose examples are."""

import os

import pytest

os.environ.setdefault("XLAB_NUM_CPU_DEVICES", "8")
os.environ.setdefault("MPLBACKEND", "agg")


@pytest.fixture(autouse=True, scope="session")
def examples_are_a_users(doctest_namespace):
    """What an example defines is of a user's own module: the package treats its own classes and functions otherwise."""
    doctest_namespace["__name__"] = "__main__"
