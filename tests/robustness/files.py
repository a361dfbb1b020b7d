"""Exported programs that were cut, changed, or written by somebody else: each is read and, where it can be, called.

`python -m tests.robustness.files COUNT SEED` prints a line per file: what was done to it, and what came of it.
"""

from __future__ import annotations

import io
import json
import random
import sys
import zipfile

import numpy as np

import xlab
import xlab.numpy as jnp
from xlab.export import deserialize, export

BIG = np.arange(4096, dtype=np.float32)
ODD = (None, True, -1, 0, 2**70, 1e308, "", "x", "../../x", [], [[]], {}, {"a": 1}, [None], [3, "f4"], "*", ["@os.system", "eA==", []], ["dict", 3, []])  # fmt: skip


def repacked(blob: bytes, change) -> bytes:
    parts = {}
    with zipfile.ZipFile(io.BytesIO(blob)) as files:
        for name in files.namelist():
            parts[name] = files.read(name)
    change(parts)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as files:
        for name, data in parts.items():
            files.writestr(name, data)
    return out.getvalue()


def spoiled(blob: bytes, draw: random.Random):
    """What was done, and the bytes."""
    at = draw.randrange(len(blob))
    yield f"cut at {at}", blob[:at]
    yield (
        f"byte {at} changed",
        blob[:at] + bytes([blob[at] ^ (1 << draw.randrange(8))]) + blob[at + 1 :],
    )
    head = json.loads(zipfile.ZipFile(io.BytesIO(blob)).read("program.json"))
    key, odd = draw.choice(list(head)), draw.choice(ODD)
    yield (
        f"{key} = {odd!r}",
        repacked(
            blob,
            lambda parts: parts.update({"program.json": json.dumps({**head, key: odd}).encode()}),
        ),
    )
    yield (
        f"without {key}",
        repacked(
            blob,
            lambda parts: parts.update(
                {"program.json": json.dumps({k: v for k, v in head.items() if k != key}).encode()}
            ),
        ),
    )

    def program(parts):
        data = bytearray(parts["program.stablehlo"])
        for _ in range(draw.randrange(1, 4)):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        parts["program.stablehlo"] = bytes(
            data[: draw.randrange(1, len(data))] if draw.random() < 0.3 else data
        )

    yield "another program", repacked(blob, program)
    name = draw.choice(["program.stablehlo", "constant0", "program.json"])
    yield f"without the part {name}", repacked(blob, lambda parts: parts.pop(name, None))
    yield (
        f"junk for {name}",
        repacked(blob, lambda parts: parts.update({name: draw.randbytes(draw.randrange(200))})),
    )


def main(count: int, seed: int) -> None:
    draw = random.Random(seed)
    f = xlab.jit(lambda t: {"s": jnp.sin(t["a"]) @ t["b"], "c": t["b"] + BIG.sum() + BIG[:3]})
    blob = bytes(export(f)({"a": jnp.ones((2, 3)), "b": jnp.ones(3)}).serialize(vjp_order=1))
    for _ in range(count):
        for what, data in spoiled(blob, draw):
            print(what, end=" | ", flush=True)
            try:
                found = deserialize(data)
                found.mlir_module()
                found.call({"a": jnp.ones((2, 3)), "b": jnp.ones(3)})
                print("ran", flush=True)
            except Exception as error:
                print(type(error).__name__, str(error).split("\n")[0][:150], flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
