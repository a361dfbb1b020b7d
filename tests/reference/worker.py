"""The second process: reads cases from standard input, writes outcomes to standard output.

A request is one line of JSON, `{"table": ..., "sample": ..., "transform": ...}`; an answer is its length as
eight bytes and a pickled `Outcome`. Started as `python -m tests.reference.worker NAMESPACE`.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import pickle
import struct
import sys

from tests.reference.run import run
from tests.reference.sample import load, namespaces


def main(name: str):
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what samples print must not get between the answers
    n = namespaces(name)
    if name == "jax":
        share_contexts()
    gc.freeze()
    tables: dict[str, dict] = {}
    for line in sys.stdin:
        request = json.loads(line)
        table = request["table"]
        if table not in tables:
            n.jax.clear_caches()  # programs of tables that are done: all of them are gigabytes
            tables[table] = {(c.sample.name, c.transform): c for c in load(table)}
        outcome = run(tables[table][request["sample"], request["transform"]], n)
        data = pickle.dumps(outcome)
        answers.write(struct.pack(">Q", len(data)) + data)
        answers.flush()


def share_contexts():
    """Lets JAX lower all programs in one MLIR context: a new one for each loads every dialect, a third of what an answer takes."""
    from jax._src.interpreters import mlir

    mlir.make_ir_context = functools.cache(mlir.make_ir_context)


if __name__ == "__main__":
    main(sys.argv[1])
