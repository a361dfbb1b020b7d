"""`Token`: a value without data, used to order effects and to wait for them."""

from __future__ import annotations

from xlab.core import avals as _avals


class Token:
    """The concrete value of a token; `lax.create_token` and `lax.after_all` make them."""

    __slots__ = ("base",)

    def __init__(self, base):
        self.base = base  # the empty array that stands for it at run time

    def block_until_ready(self) -> None:
        """Waits until what the token stands for has happened."""
        self.base.block_until_ready()


_avals.aval_makers[Token] = lambda x: _avals.TOKEN
