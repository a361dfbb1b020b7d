"""Values summarized: range, NaN and Inf counts, first entries, histogram, a small picture; per device where sharded.

Reads addressable shards only. A value over several devices is never gathered: its statistics are put together from its shards.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlab.core import dtypes
from xlab.core.array import KeyArray, is_native_array
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.hi_states import typed
from xlab.core.hi_types import is_high
from xlab.interpreters.lojax import parts_of
from xlab.observe.records import ShardSummary, Value

BINS = 16
CELLS = 8  # a heat map has at most so many rows and columns
PREVIEW = 6
SAMPLE = 1 << 22  # of larger arrays, histogram and heat map look at every k-th entry


def summarize(
    value: Any, name: str = "", *, note: str = "", heat: bool = True, local: bool = False
) -> Value:
    """A value as a record. With `local` the leading dimension counts devices, and each one's part is a value of its own.

    >>> import numpy as np
    >>> v = summarize(np.array([1.0, 2.0, np.nan], np.float32), "x")
    >>> v.type, v.min, v.max, v.nans, v.preview[:2]
    ('f32[3]', 1.0, 2.0, 1, (1.0, 2.0))
    """
    if isinstance(value, KeyArray):
        aval: Any = aval_of(value)
        shown = aval.update(shape=aval.shape[1:]) if local else aval
        inner = summarize(
            value.base, name, note=note or f"key data of {shown}", heat=False, local=local
        )
        # Its words are no numbers: a range or a mean of them says nothing.
        bare = tuple(ShardSummary(s.device) for s in inner.shards)
        return inner.replace(
            type=shown.str_short(short_dtypes=True),
            min=None,
            max=None,
            mean=None,
            histogram=(),
            shards=bare,
        )
    aval = typed(value)
    if is_high(aval):
        return Value(name, aval.str_short(short_dtypes=True), note=note or _parts(aval, value))
    if not isinstance(aval, ShapedArray):
        return Value(name, aval.str_short(short_dtypes=True), note=note)
    if is_native_array(value) and value.is_deleted():
        return Value(name, aval.str_short(short_dtypes=True), note="deleted or donated")
    text = (
        aval.update(shape=aval.shape[1:]).str_short(short_dtypes=True)
        if local
        else aval.str_short(short_dtypes=True)
    )
    if not is_native_array(value) or (
        len(value.sharding.device_set) == 1 and value.is_fully_addressable and not local
    ):
        data = _numbers(np.asarray(value._host_value() if is_native_array(value) else value))
        stats = _Statistics(data)
        low, high, mean = stats.range
        return Value(
            name,
            aval.str_short(short_dtypes=True),
            low,
            high,
            mean,
            stats.nans,
            stats.infs,
            _preview(data),
            stats.histogram(low, high),
            _heat(data) if heat else (),
            note=note,
        )
    # Copies count once; every device of this process is shown.
    parts = value.addressable_shards
    if not value.is_fully_addressable:
        note = note or f"{len(parts)} of {value.sharding.num_devices} parts, those in this process"
    shards, own, seen = [], [], set()
    for shard in parts:
        data = _numbers(np.asarray(shard.data._host_value()))
        data = data[0] if local else data
        stats = _Statistics(data)
        span = tuple((s.start, s.stop) for s in shard.index)
        if span not in seen:
            seen.add(span)
            own.append((shard.index, data, stats))
        low, high, mean = stats.range
        shards.append(
            ShardSummary(
                int(shard.device.id),
                low,
                high,
                mean,
                stats.nans,
                stats.infs,
                _heat(data) if heat else (),
            )
        )
    finite = [s for _, _, s in own if s.count]
    low = min((s.range[0] for s in finite), default=None)
    high = max((s.range[1] for s in finite), default=None)
    count = sum(s.count for s in finite)
    mean = sum(s.range[2] * s.count for s in finite) / count if count else None
    histogram: tuple[int, ...] = ()
    if count:
        histogram = tuple(int(n) for n in np.sum([s.histogram(low, high) for s in finite], axis=0))
    first = next(
        (data for index, data, _ in own if all(not s.start for s in index)),
        own[0][1] if own else None,
    )
    return Value(
        name,
        text,
        low,
        high,
        mean,
        sum(s.nans for _, _, s in own),
        sum(s.infs for _, _, s in own),
        _preview(first) if first is not None else (),
        histogram,
        (),
        tuple(shards),
        note,
    )


def _parts(aval: Any, value: Any) -> str:
    """The arrays of a value of a hi type, each in a line's words."""
    parts = parts_of(aval, value)
    return "; ".join(str(summarize(p, heat=False)).strip() for p in parts) or "no arrays"


def _numbers(data: np.ndarray) -> np.ndarray:
    """The array as NumPy can count with it: small floats widened, float0 as zeros."""
    if data.dtype == dtypes.float0:
        return np.zeros(data.shape, np.bool_)
    if data.dtype.kind == "V" and data.dtype.names is None:
        return data.astype(np.float32)
    return data


class _Statistics:
    """Statistics over the finite entries of one array. Complex numbers count by absolute value."""

    def __init__(self, data: np.ndarray):
        self.nans = self.infs = 0
        self.range: tuple = (None, None, None)
        flat = data.reshape(-1)
        if data.dtype.kind == "c":
            flat = np.abs(flat)
        if flat.dtype.kind == "f":
            good = np.isfinite(flat)
            if not good.all():
                self.nans = int(np.isnan(flat).sum())
                self.infs = int(flat.size - good.sum()) - self.nans
                flat = flat[good]
        self.flat, self.count = flat, int(flat.size)
        if self.count:
            with np.errstate(over="ignore"):
                mean = float(flat.mean(dtype=np.float64))
            self.range = (_plain(flat.min()), _plain(flat.max()), mean)

    def histogram(self, low: Any, high: Any) -> tuple[int, ...]:
        if not self.count or low is None or self.flat.dtype.kind == "b":
            return ()
        flat = self.flat[:: -(-self.count // SAMPLE)].astype(np.float64)
        if high <= low:
            return (*(0,) * (BINS // 2), int(flat.size), *(0,) * (BINS - BINS // 2 - 1))
        with np.errstate(over="ignore", invalid="ignore"):
            place = np.clip(
                ((flat - low) * (BINS / (float(high) - float(low)))).astype(np.int64), 0, BINS - 1
            )
        return tuple(int(n) for n in np.bincount(place, minlength=BINS))


def _plain(x: Any) -> float:
    return float(x)


def _preview(data: np.ndarray) -> tuple:
    flat = data.reshape(-1)[:PREVIEW]
    if flat.dtype.kind == "c":
        return tuple(str(complex(x)) for x in flat)
    return tuple(x.item() if hasattr(x, "item") else x for x in flat)


def _heat(data: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """Means of a grid of cells over the last two dimensions; the leading ones are laid under one another."""
    if data.ndim < 1 or data.size < 2 or data.dtype.kind not in "fiu":
        return ()
    table = data.reshape(1, -1) if data.ndim == 1 else data.reshape(-1, data.shape[-1])
    step = max(1, table.size // SAMPLE)
    rows, columns = min(CELLS, table.shape[0]), min(CELLS, table.shape[1])
    row_edges = np.arange(rows) * table.shape[0] // rows
    column_edges = np.arange(columns) * table.shape[1] // columns
    if step > 1:
        stride = max(1, table.shape[0] // max(1, SAMPLE // table.shape[1]))
        table = table[::stride]
        rows = min(rows, table.shape[0])
        row_edges = np.arange(rows) * table.shape[0] // rows
    with np.errstate(invalid="ignore", over="ignore"):
        sums = np.add.reduceat(
            np.add.reduceat(table.astype(np.float64), row_edges, axis=0), column_edges, axis=1
        )
    heights = np.diff([*row_edges, table.shape[0]])
    widths = np.diff([*column_edges, table.shape[1]])
    return tuple(tuple(float(x) for x in row) for row in sums / np.outer(heights, widths))
