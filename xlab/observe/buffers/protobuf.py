"""Reads the wire form of protocol buffers: numbered fields, without a schema.

>>> list(fields(bytes([8, 150, 1, 18, 2, 104, 105])))
[(1, 150), (2, b'hi')]
"""

from __future__ import annotations

from collections.abc import Iterator


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message in order: numbers as int, strings, nested messages and packed lists as bytes.

    Raises:
        ValueError: the data ends inside a field, or is no message.
    """
    at, end = 0, len(data)
    while at < end:
        tag = data[at]  # most numbers are one byte, and a call for each would be most of the time
        at += 1
        if tag > 127:
            tag, at = _varint(data, at - 1)
        kind = tag & 7
        value: int | bytes
        if kind == 0:
            if at < end and (byte := data[at]) < 128:
                value, at = byte, at + 1
            else:
                value, at = _varint(data, at)
        elif kind == 2:
            if at < end and (size := data[at]) < 128:
                at += 1
            else:
                size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = int.from_bytes(data[at : at + size], "little"), at + size
        else:
            raise ValueError(f"no protocol buffer: a field of kind {kind} at byte {at}")
        if at > end:
            raise ValueError(f"no protocol buffer: a field ends at byte {at} of {end}")
        yield tag >> 3, value


def numbers(value: int | bytes) -> tuple[int, ...]:
    """A repeated number, packed or one at a time.

    >>> numbers(b"\\x01\\x96\\x01"), numbers(5)
    ((1, 150), (5,))
    """
    if isinstance(value, int):
        return (value,)
    out, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        out.append(number)
    return tuple(out)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise ValueError(f"no protocol buffer: a number ends at byte {at}")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if (
            shift > 63
        ):  # without an end, adding up what hostile data says would take the square of its length
            raise ValueError(
                f"no protocol buffer: a number of more than ten bytes ends at byte {at}"
            )
