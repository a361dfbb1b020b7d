"""Arrays that go from one process to another without a common program: one offers them under a number, the other fetches them.

The two need not be joined by `distributed.initialize`, so a process that serves a model can have the arrays of another that computes them.
"""

from __future__ import annotations

import datetime
import operator
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.backend import transfer_servers as _native
from xlab.backend.arrays import ArrayImpl
from xlab.core.array import is_native_array
from xlab.core.avals import aval_of
from xlab.parallel.put import device_put

__all__ = ["TransferConnection", "TransferServer", "make_error_array", "start_transfer_server"]


class TransferConnection:
    """Fetches arrays of one other process; `TransferServer.connect` makes it."""

    def __init__(self, native: Any):
        self._native = native

    def pull(self, uuid: int, xs: Any, timeout: datetime.datetime | None = None) -> Any:
        """The arrays that the other process offers under `uuid`. They come later: what uses them waits, as it does for results of programs.

        Args:
            uuid: the number under which they are, or will be, offered.
            xs: a tree of `ShapeDtypeStruct` with shardings: shapes, dtypes and, device by device, the shards of the offered arrays. The two sides
                are not compared: of another dtype of equal size, the bits are taken for its values.
            timeout: until when they have to have come. What has not by then is an error where it is used, and so is
                everything else that this connection still waits for; it has to be made again. By default it is waited for without end.

        Returns:
            A tree of arrays with these types and shardings.

        Raises:
            TypeError: a leaf has no sharding, or a dtype that is not stored (fetch the `random.key_data` of keys); `uuid` is no int.
            ValueError: the devices belong to several clients.
            XlabRuntimeError: when the arrays are used: the other process ended, does not listen, or offered other sizes.
        """
        number = _number(uuid)
        _check_deadline(timeout)
        leaves, treedef = _tree.flatten(xs)
        types = [_asked(leaf) for leaf in leaves]
        # Arrays without elements are never sent: the two sides agree on them without a word.
        sent = [t for t in types if t[0].size]
        client = _client([sharding for _, sharding in sent])
        came: list[Any] = []
        if sent:
            came = _native.fetch(self._native, number, client, *zip(*sent, strict=True))
            if timeout is not None:
                _watch(self._native, came, timeout)
        arrived = iter(came)
        return _tree.unflatten(treedef, [next(arrived) if t[0].size else _empty(*t) for t in types])


class TransferServer:
    """Offers arrays of this process to others, and connects to theirs; `start_transfer_server` makes it."""

    def __init__(self, native: Any):
        self._native = native

    def address(self) -> str:
        """Where it listens, as `"host:port"`: what another process gives to `connect`."""
        return self._native.address()

    def connect(self, address: str) -> TransferConnection:
        """A connection to the server of another process, or of this one.

        Args:
            address: what its `address()` says. Nobody has to listen there yet.

        Raises:
            XlabRuntimeError: it is no address.
        """
        return TransferConnection(self._native.connect(address))

    def await_pull(self, uuid: int, arrays: Any, timeout: datetime.datetime | None = None) -> None:
        """Offers arrays under a number, until one other process has fetched them. Returns at once.

        Args:
            uuid: the number, another one for each offer: what is offered twice under one number is not found again.
            arrays: a tree of arrays, of which the shards on this process's devices are sent.
            timeout: accepted for callers that have a deadline. An offer takes only the memory of its arrays.

        Raises:
            TypeError: a leaf is no array on devices; `uuid` is no int.
            RuntimeError: an array was deleted or donated.
        """
        number = _number(uuid)
        _check_deadline(timeout)
        leaves = _tree.leaves(arrays)
        for leaf in leaves:
            _check_offered(leaf)
        full = [leaf for leaf in leaves if leaf.size]
        if full:
            _native.offer(self._native, number, full)


def start_transfer_server(
    client: Any,
    address: str = "[::]:0",
    transport_addresses: Sequence[str] = (),
    max_num_parallel_copies: int = 8,
    transfer_size: int = 256 * 1024 * 1024,
    supports_pinned_allocator: bool = False,
    use_raw_buffers: bool = False,
) -> TransferServer:
    """Starts the server by which this process offers arrays to others and fetches theirs.

    Args:
        client: whose devices the arrays are on, as `xlab.devices()[0].client`.
        address: where to listen; port 0 takes a free one.
        transport_addresses: where the data go, one address for each socket; by default within this machine only.
        max_num_parallel_copies: how many pieces are copied from devices at once.
        transfer_size: bytes of a piece.
        supports_pinned_allocator: whether pieces lie in memory that devices read by themselves.
        use_raw_buffers: whether pieces are sent from the buffers of the arrays, without a copy.

    Returns:
        The server, which lives as long as somebody holds it.

    Raises:
        XlabRuntimeError: the address is none, or taken.

    Example:
        >>> import xlab, xlab.numpy as jnp
        >>> from xlab.experimental import transfer
        >>> x = jnp.arange(3)
        >>> server = transfer.start_transfer_server(xlab.devices()[0].client, "127.0.0.1:0", ["127.0.0.1:0"])
        >>> server.await_pull(1, {"x": x})  # in one process
        >>> connection = server.connect(server.address())  # in another
        >>> type = xlab.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)
        >>> connection.pull(1, {"x": type})["x"].tolist()
        [0, 1, 2]
    """
    return TransferServer(
        _native.start(client, address, transport_addresses, max_num_parallel_copies, transfer_size,
                      supports_pinned_allocator, use_raw_buffers)
    )  # fmt: skip


def make_error_array(aval: Any, message: object) -> ArrayImpl:
    """An array that stands for one that could not be had: what uses its values raises `message`.

    Args:
        aval: its type, with a sharding.
        message: what to say.

    Returns:
        An array of this shape, dtype and sharding.

    Raises:
        TypeError: the type has no sharding, or its dtype is not stored.
    """
    type_, sharding = _asked(aval)
    return _native.failed(_client([sharding]), type_, sharding, str(message))


def _number(uuid: Any) -> int:
    try:
        return operator.index(uuid)
    except TypeError:
        raise TypeError(
            f"Arrays are offered under a number, an int; got {uuid!r} of type {type(uuid).__name__}."
        ) from None


def _check_deadline(timeout: Any) -> None:
    if not (timeout is None or isinstance(timeout, datetime.datetime)):
        raise TypeError(
            f"A timeout is a point of time, as datetime.now() + timedelta(seconds=10); got {timeout!r}."
        )


def _check_offered(leaf: Any) -> None:
    if not is_native_array(leaf):
        raise TypeError(
            f"Only arrays on devices can be offered; got {leaf!r:.80} of type {type(leaf).__name__}. "
            "device_put makes one of other values, random.key_data one of keys."
        )
    if leaf.is_deleted():
        raise RuntimeError(
            f"An array of type {leaf.aval.str_short(short_dtypes=True)} was deleted or donated: it cannot be offered."
        )


def _asked(leaf: Any) -> tuple[Any, Any]:
    aval, sharding = aval_of(leaf), getattr(leaf, "sharding", None)
    if getattr(sharding, "native", None) is None:
        raise TypeError(
            f"The sharding of an array that is to come has to be known; {leaf!r:.120} has none. "
            "Say ShapeDtypeStruct(shape, dtype, sharding=...)."
        )
    if not hasattr(aval.dtype, "itemsize") or aval.dtype.kind == "O":
        raise TypeError(
            f"Values of dtype {aval.dtype} are not sent as they are; for keys, send their random.key_data."
        )
    return aval, sharding


def _client(shardings: Sequence[Any]) -> Any:
    clients = {d.client for s in shardings for d in s.addressable_in_order}
    if len(clients) > 1:
        raise ValueError(
            f"Arrays that are fetched together have to be on devices of one client; these are on {len(clients)} platforms."
        )
    return next(iter(clients), None)


def _empty(aval: Any, sharding: Any) -> Any:
    return device_put(np.zeros(aval.shape, aval.dtype), sharding)


def _watch(connection: Any, arrays: Sequence[Any], until: datetime.datetime) -> None:
    """Gives a connection up if an array that somebody still holds is not there in time."""
    waiting = [weakref.ref(a) for a in arrays]

    def look() -> None:
        left = [a for ref in waiting if (a := ref()) is not None]
        if any(not a.is_deleted() and not a.is_ready() for a in left):
            _native.give_up(connection)

    seconds = (until - datetime.datetime.now(until.tzinfo)).total_seconds()
    timer = threading.Timer(max(seconds, 0), look)
    timer.daemon = True
    timer.start()
