"""Arrays that other processes fetch, over sockets and without a common program.

One side offers arrays under a number, the other says their types and gets them. Native code does not compare the two, waits forever for what is
never offered, for arrays without elements too, and heeds no deadline on CPUs; `parallel/transfers.py` sees to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlab.backend import arrays as _arrays
from xlab.backend.native import _jax


class _Asked(NamedTuple):
    """What native code reads of the type of an array that is to come."""

    shape: tuple[int, ...]
    dtype: np.dtype
    sharding: Any
    weak_type: bool = False


def start(client: Any, address: str, transport_addresses: Sequence[str], *options: Any) -> Any:
    """A native server for the arrays of a client."""
    return _jax.start_transfer_server(client, address, list(transport_addresses), *options)


def offer(server: Any, number: int, arrays: Sequence[Any]) -> None:
    """Keeps arrays until somebody fetches them by their number."""
    server._await_pull_flat(number, list(arrays))


def fetch(
    connection: Any, number: int, client: Any, avals: Sequence[Any], shardings: Sequence[Any]
) -> list[Any]:
    """The arrays that the other side offers under a number; they come later."""
    asked = [_Asked(a.shape, a.dtype, s.native) for a, s in zip(avals, shardings)]
    came = connection._pull_flat(number, client, asked)
    return [_typed(*one) for one in zip(came, avals, shardings)]


def give_up(connection: Any) -> None:
    """Closes a connection: all that has not come is an error now, where it is used."""
    connection._poison_connection()


def failed(client: Any, aval: Any, sharding: Any, message: str) -> Any:
    """An array whose values could not be had, which is said where it is used."""
    asked = _Asked(aval.shape, aval.dtype, sharding.native)
    return _typed(_jax._make_error_array(client, asked, message), aval, sharding)


def _typed(array: Any, aval: Any, sharding: Any) -> Any:
    return _arrays.rewrap(array, aval, sharding)
