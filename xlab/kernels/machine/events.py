"""What the value interpreter tells of a run: accesses and blocks, as tuples inside and as plain dicts outside.

An access event is

    {"t": 41, "pair": 1, "core": 3, "grid": [0], "eqn": "body/7", "ref": "args[0]", "kind": "read", "slice": [[0, 8], [16, 24]],
     "masked": 0, "digest": "9ae0daaf"}

- `t`: the turn in which it happened, counted from 0; a turn is one equation of one core, or a core that finds it has to wait.
- `core`: numbers count through all pairs. `grid`: the grid point, or the core's coordinates in its mesh.
- `eqn`: the path of the equation: its number in the kernel (`body`), then the program inside (`branch 1`, `body`, `condition`, `jit`,
  `scope`) and the number there, and so on. `equations` in the record of a run have text and line.
- `ref`: `args[0]`, `outputs[0]`, `scratch[0]`, `captured[0]`, or `scoped[n]` for what the kernel allocates itself. `slice` is in
  coordinates of the whole array, half-open; where positions are given by arrays it is the box around them.
- `kind`: `read`, `write`, `accum`, `signal`, `wait`, `copy`. `masked`: elements that a mask left out. `digest` differs where values
  differ.
- Only where it says something: `owner` (the core whose copy it is), `unwritten` (elements read that nobody wrote), `count` (units
  signaled or needed), `present` (units there), `blocked` (the core has to wait), `signals` (turns of the signals that let a wait
  pass), `to` and `to_slice` (where a copy goes), `done` (whether the copy took place, not only started).

A block event is

    {"step": 5, "grid": [1, 2], "operand": "outputs[0]", "io": "write", "index": [1, 2], "start": [32, 256], "shape": [32, 128],
     "squeezed": [], "pad": [0, 44], "clamped": false, "visit": 1, "core": 0, "pair": 0}

- `step`: the number of the grid point in row-major order. Inputs are read before the kernel runs, outputs written after it; an input
  that the kernel wrote is written too.
- `start` and `shape` have one entry per dimension of the array; `squeezed` names the dimensions that the kernel's reference has not.
  `pad` counts elements of the block outside the array. `index` is what the index map gave (a list for `Indirect`, [start, size] for
  `BoundedSlice`). `clamped`: the block was moved inside. `visit` counts how often this core had this block of the operand, from 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Access(NamedTuple):
    """One access to memory or to a semaphore."""

    t: int
    pair: int
    core: int
    grid: tuple[int, ...]
    eqn: str
    ref: str
    kind: str
    box: tuple[tuple[int, int], ...]
    masked: int = 0
    digest: int = 0
    more: tuple[tuple[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The event as plain data."""
        return {
            "t": self.t,
            "pair": self.pair,
            "core": self.core,
            "grid": list(self.grid),
            "eqn": self.eqn,
            "ref": self.ref,
            "kind": self.kind,
            "slice": [list(range_) for range_ in self.box],
            "masked": self.masked,
            "digest": f"{self.digest:08x}",
            **{k: _plain(v) for k, v in self.more},
        }

    def text(self) -> str:
        """As `reads args[0][0:4]`."""
        box = ",".join(f"{a}:{b}" for a, b in self.box)
        verb = VERBS.get(self.kind, self.kind)
        return f"{verb} {self.ref}" + (f"[{box}]" if self.box else "")


VERBS = {
    "read": "reads",
    "write": "writes",
    "accum": "adds to",
    "signal": "signals",
    "wait": "waits for",
    "copy": "copies",
}


class BlockEvent(NamedTuple):
    """A block that a step of the grid gets, or puts back."""

    step: int
    grid: tuple[int, ...]
    operand: str
    io: str
    index: tuple
    start: tuple[int, ...]
    shape: tuple[int, ...]
    squeezed: tuple[int, ...]
    pad: tuple[int, ...]
    clamped: bool
    visit: int
    core: int
    pair: int

    def to_dict(self) -> dict[str, Any]:
        """The event as plain data."""
        return {k: _plain(v) for k, v in self._asdict().items()}

    def text(self) -> str:
        """As `writes outputs[0][0:4]`."""
        box = ",".join(f"{a}:{a + n}" for a, n in zip(self.start, self.shape))
        return f"{VERBS[self.io]} {self.operand}[{box}]"


Event = Access | BlockEvent


def _plain(v):
    if isinstance(v, (tuple, list)):
        return [_plain(x) for x in v]
    return v
