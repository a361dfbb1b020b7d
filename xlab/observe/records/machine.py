"""What a machine can do, as numbers: rates, bandwidths, and what a call costs."""

from __future__ import annotations

import math

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
        memory: bytes of one device, None if not known.
        share: how many devices' work the machine does at once: virtual devices of one host share its cores.
        measured: whether `calibrate` measured it here.
        convolution, decomposition: operations a second in convolutions, and in decompositions of matrices; 0 for those of products.
        reduction, transform, serial: operations a second in reductions, in Fourier transforms, and from element to element, as the comparisons of
            a sort; 0 for those of other arithmetic.
        memory_rates: for values of so many bytes the bytes of memory read and written a second, the smallest first; without it both are `bandwidth`.
        shared_memory: whether all devices have one memory together.
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

    def moved_us(self, read: float, written: float) -> float:
        """Microseconds in which so many bytes are read and written: small values stay in caches, and large results are memory that is given anew.

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

    def part(self, devices: int) -> float:
        """The part of its rate that each of several devices has when all work at once.

        >>> Machine("m", share=2.0).part(8), Machine("m").part(8)
        (0.25, 1.0)
        """
        return 1.0 if not self.share else min(1.0, self.share / max(1, devices))


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
                f"{significant(read / 1e9)} GB/s read, {significant(written / 1e9)} written",
            )
            for size, read, written in m.memory_rates
        ),
        ("an operation", time_text(m.operation_us)),
        ("a call", time_text(m.dispatch_us)),
        ("a message", f"{time_text(m.alpha)} + {significant(m.beta / 1e3)} GB/s"),
        *([("memory of a device", size_text(m.memory))] if m.memory else []),
    ]
    if m.share:
        rows.append(("at once", f"the work of {plural(round(m.share), 'device')}"))
    shown = rows if o.times or not m.measured else [(n, "measured") for n, _ in rows]
    return "\n".join([f"{m.name}: {m.note}", table(shown, "ll")])


add_form(Machine, _machine)
