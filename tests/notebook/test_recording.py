"""What a run that was ended is said to have been doing."""

import numpy as np
import pytest

import xlab
from xlab.notebook.recording import recording

X = np.ones(3, np.float32)


def end(_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (xlab.jit(lambda x: xlab.lax.sin(x)), "running"),
        (xlab.jit(end), "tracing"),
        (lambda x: xlab.jit(lambda x: xlab.lax.cos(x)).trace(x), "lowering"),
        (lambda x: xlab.jit(lambda x: xlab.lax.tan(x)).lower(x), "compiling"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_an_interrupt_says_what_it_ended(does, said):
    with (
        pytest.raises(KeyboardInterrupt, match=f"interrupted while {said}; all names") as told,
        recording("In[1]", None) as run,
    ):
        run.doing = "compiling"
        does(X)
        raise KeyboardInterrupt
    assert ("kernel restarted" in str(told.value)) == (said == "running"), (
        "only a program that a device has begun goes on"
    )
