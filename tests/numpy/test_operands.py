"""Operands that are no arrays."""

import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax


@pytest.mark.parametrize("position", [0, 1])
def test_a_token_is_no_number(position):
    def program(x):
        operands = [x, x]
        operands[position] = lax.create_token()
        return operands[0] + operands[1]

    with pytest.raises(TypeError, match=f"operand at position {position} is of type Token"):
        xlab.jit(program)(jnp.ones(2))
