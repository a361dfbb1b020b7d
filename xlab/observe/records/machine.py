"""What a machine can do, as numbers: rates, bandwidths, and what a call costs."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.program import MOST_DEVICES
from xlab.observe.records.text import Options, add_form
from xlab.observe.records.units import plural, significant, size_text, table, time_text


@record_type
class Machine(Record):
    """One device of a machine, and what lies between its devices.

    Args:
        name: `cpu`, or `tpu:v5e`.
        note: where the numbers come from, in words.
        matrix: operations a second in products of matrices, by dtype.
        vector: additions a second outside of them.
        transcendental: exponentials a second.
        bandwidth: bytes of memory a second.
        operation_us: what an operation of a compiled program takes however small it is.
        dispatch_us: what a call takes on one device, and `dispatch_device_us` for each more.
        alpha, beta: microseconds of a message between devices, bytes a microsecond.
        start_us: what a collective takes before its first message, since all devices wait for one another.
        memory: bytes of one device, None if not known.
        share: how many devices' work the machine does at once: virtual devices of one host share its cores.
        measured: whether `calibrate` measured it here.
        convolution, decomposition: operations a second in convolutions, and in decompositions of matrices; 0 for those of products.
        reduction, transform, serial: operations a second in reductions, in Fourier transforms, and from element to element, as the comparisons of
            a sort; 0 for those of other arithmetic.
        memory_rates: for values of so many bytes, the smallest first, the bytes a second that are read or written inside of a program, and those of
            results, which are memory given anew; without it both are `bandwidth`.
        shared_memory: whether all devices have one memory together.
        rates: what was measured by itself, at several sizes: a primitive by its name, or `product f32` (`product f32 over rows` where the left
            operand is summed over its rows, `product f32 batched` of many as one), how much of it one operation did, and so much a second. Of a function as `exp` it is what it adds to
            a loop that reads and writes as many values.
        shares: for an operation that takes so many microseconds alone, how many devices' operations are done at once; without it `share`.
    """

    name: str
    note: str = ""
    matrix: tuple[tuple[str, float], ...] = ()
    vector: float = 1e9
    transcendental: float = 1e8
    bandwidth: float = 1e10
    operation_us: float = 0.0
    dispatch_us: float = 0.0
    dispatch_device_us: float = 0.0
    alpha: float = 1.0
    beta: float = 10_000.0
    memory: int | None = None
    share: float = 0.0
    measured: bool = False
    convolution: float = 0.0
    decomposition: float = 0.0
    shared_memory: bool = False
    reduction: float = 0.0
    transform: float = 0.0
    serial: float = 0.0
    memory_rates: tuple[tuple[int, float, float], ...] = ()
    start_us: float = 0.0
    rates: tuple[tuple[str, float, float], ...] = ()
    shares: tuple[tuple[float, float], ...] = ()

    def contradiction(self) -> str:
        """A number of devices that is none."""
        return (
            "" if 0 <= self.share < MOST_DEVICES else f"share must be 0 to {MOST_DEVICES:,} devices"
        )

    def rate(self, dtype: str) -> float:
        """Operations a second in products of a dtype; of one that is not known, those of the first.

        >>> Machine("m", matrix=(("f32", 2e9), ("bf16", 4e9))).rate("bf16")
        4000000000.0
        """
        known = dict(self.matrix)
        return known.get(dtype) or next(iter(known.values()), self.vector)

    def rate_of(self, what: str, work: float) -> float | None:
        """So much a second of what was measured by itself, between the measured sizes as on a line through their logarithms; None if it was not.

        >>> m = Machine("m", rates=(("exp", 100, 1e6), ("exp", 10_000, 4e6)))
        >>> [m.rate_of("exp", work) for work in (1, 1000, 1e9)], m.rate_of("log", 1)
        ([1000000.0, 2000000.0, 4000000.0], None)
        """
        rows = [(size, rate) for name, size, rate in self.rates if name == what]
        return _between(rows, work) if rows else None

    def product_rate(self, dtype: str, work: float, form: str = "") -> float:
        """Operations a second in products of a dtype, of which one does so many; `form` is `over rows` or `batched`.

        >>> m = Machine("m", matrix=(("f32", 4e9), ("f64", 2e9)), rates=(("product f32", 100, 1e9), ("product f32 over rows", 100, 5e8)))
        >>> m.product_rate("f32", 100), m.product_rate("f64", 100), m.product_rate("f64", 100, "over rows")
        (1000000000.0, 500000000.0, 250000000.0)
        """
        first = next(iter(self.matrix), (dtype, 0.0))
        ends = (f" {form}", "") if form else ("",)
        for end in ends:
            own = self.rate_of(f"product {dtype}{end}", work)
            if own is not None:
                return own
            measured = self.rate_of(f"product {first[0]}{end}", work)
            if measured is not None and first[1]:
                return measured * self.rate(dtype) / first[1]
        return self.rate(dtype)

    def moved_us(self, read: float, written: float) -> float:
        """Microseconds in which so many bytes are read, or written inside of a program, and so many of results are written: small values stay in
        caches, and results are memory that is given anew.

        >>> m = Machine("m", bandwidth=2e9, memory_rates=((1000, 2e9, 1e9), (100_000, 1e9, 5e8)))
        >>> [round(m.moved_us(*given), 6) for given in ((0, 500), (1e6, 0), (2000, 0))], m.replace(memory_rates=()).moved_us(500, 500)
        ([0.5, 1000.0, 1.0], 0.5)
        """
        if not self.memory_rates:
            return 1e6 * (read + written) / self.bandwidth
        return 1e6 * (read * self._per_byte(read, 1) + written * self._per_byte(written, 2))

    def _per_byte(self, size: float, way: int) -> float:
        """Seconds of a byte of values of this size: as of the known size that is nearest by its ratio."""
        return (
            1 / min(self.memory_rates, key=lambda row: abs(math.log(max(1.0, size) / row[0])))[way]
        )

    def part(self, devices: int, us: float | None = None) -> float:
        """The part of its rate that each of several devices has when all work at once; of an operation that takes `us` alone, if that is given.

        >>> Machine("m", share=2.0).part(8), Machine("m").part(8), Machine("m", share=1.0, shares=((10.0, 2.0), (1000.0, 1.0))).part(8, 100.0)
        (0.25, 1.0, 0.1767766952966369)
        """
        share = _between(self.shares, us) if self.shares and us is not None else self.share
        return 1.0 if not share else min(1.0, share / max(1, devices))


def _between(rows: Sequence[tuple[float, float]], at: float) -> float:
    """The value at a size: that of the nearest row outside of them, between two on the line through the logarithms."""
    rows = sorted(rows)
    n = bisect_left(rows, (at,))
    if n == 0 or n == len(rows):
        return rows[min(n, len(rows) - 1)][1]
    (a, low), (b, high) = rows[n - 1], rows[n]
    if low <= 0 or high <= 0 or a <= 0:
        return low
    return float(low * (high / low) ** (math.log(at / a) / math.log(b / a)))


def _machine(m: Machine, o: Options) -> str:
    rows = [
        *((f"products of {d}", f"{significant(r / 1e9)} GFLOP/s") for d, r in m.matrix),
        *(
            (name, f"{significant(rate / 1e9)} GFLOP/s")
            for name, rate in (
                ("convolutions", m.convolution),
                ("decompositions", m.decomposition),
                ("reductions", m.reduction),
                ("Fourier transforms", m.transform),
                ("element to element", m.serial),
            )
            if rate
        ),
        ("other arithmetic", f"{significant(m.vector / 1e9)} GFLOP/s"),
        ("exponentials", f"{significant(m.transcendental / 1e9)} G/s"),
        ("memory", f"{significant(m.bandwidth / 1e9)} GB/s"),
        *(
            (
                f"memory, {size_text(size)}",
                f"{significant(read / 1e9)} GB/s, of results {significant(written / 1e9)}",
            )
            for size, read, written in m.memory_rates
        ),
        ("an operation", time_text(m.operation_us)),
        ("a call", time_text(m.dispatch_us)),
        *([("a collective before it sends", time_text(m.start_us))] if m.start_us else []),
        ("a message", f"{time_text(m.alpha)} + {significant(m.beta / 1e3)} GB/s"),
        *([("memory of a device", size_text(m.memory))] if m.memory else []),
    ]
    if m.share:
        rows.append(("at once", f"the work of {plural(round(m.share), 'device')}"))
    for name in dict.fromkeys(name for name, _, _ in m.rates):
        sizes = sorted((size, rate) for n, size, rate in m.rates if n == name)
        said = ", ".join(f"{significant(rate / 1e9)}" for _, rate in sizes)
        of = ", ".join(f"{significant(size)}" for size, _ in sizes)
        rows.append((name, f"{said} G/s where one has {of}"))
    shown = rows if o.times or not m.measured else [(n, "measured") for n, _ in rows]
    return "\n".join([f"{m.name}: {m.note}", table(shown, "ll")])


add_form(Machine, _machine)
