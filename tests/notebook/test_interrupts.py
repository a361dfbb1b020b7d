"""An interrupt that arrives where Python drops exceptions reaches the cell all the same."""

import signal
import sys
import time

import pytest

from xlab.notebook import interrupts


class Ends:
    """An object at whose end an interrupt arrives."""

    def __init__(self, error):
        self.error = error

    def __del__(self):
        raise self.error


def test_an_interrupt_at_the_end_of_an_object_comes_again(monkeypatch):
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        pytest.skip("SIGINT is handled by somebody else")
    other: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: other.append(dropped.exc_type))
    before = sys.unraisablehook
    interrupts.unregister()
    interrupts.register()
    interrupts.register()
    try:
        with pytest.raises(KeyboardInterrupt):
            Ends(KeyboardInterrupt())
            for _ in range(300):
                time.sleep(0.01)
        Ends(ValueError("not ours"))
        assert other == [ValueError]
    finally:
        interrupts.unregister()
    assert sys.unraisablehook is before
