"""Calls nobody should make: every public function with arguments of wrong kinds, ranks, sizes and names.

`python -m tests.robustness.calls SUBJECT MODULE COUNT SEED` makes them in one process and prints a JSON line per call:
function, arguments, what came of it and how long it took. A line that says `begin` without its `end` names the call that
took the process down.
"""

from __future__ import annotations

import inspect
import json
import random
import signal
import sys
import time
import warnings

MODULES = ("numpy", "lax", "nn", "random", "numpy.linalg", "numpy.fft", "scipy.special", "scipy.linalg", "ops",
           "nn.initializers", "tree", "")  # fmt: skip
# They write files, wait for other processes, end the session, or change it for what comes after; two are NumPy's own.
LEFT_OUT = {
    "save", "savez", "load", "fromfile", "initialize", "shutdown", "clear_caches", "clear_backends", "breakpoint", "step",
    "set_mesh", "use_mesh", "set_printoptions", "start_trace", "stop_trace", "start_server", "print_environment_info",
    "load_ipython_extension", "unload_ipython_extension", "update", "enable_checks", "no_execution",
    "array_repr", "array_str",
}  # fmt: skip
LIMIT = 60  # seconds after which a call is taken for one that never ends


def functions(n, module: str) -> list[tuple[str, object]]:
    """Public functions of a module of `n`, by name."""
    home = n
    for part in filter(None, module.split(".")):
        home = getattr(home, part)
    names = [k for k in dir(home) if not k.startswith("_") and k not in LEFT_OUT]
    found = []
    for name in sorted(names):
        value = getattr(home, name, None)
        if (
            inspect.isclass(value)
            or inspect.ismodule(value)
            or not callable(value)
            or name.endswith("_p")
        ):
            continue
        found.append((name, value))
    return found


def pool(n, np) -> dict[str, object]:
    """Arguments by the name they are reported under."""
    jnp = n.numpy
    key = n.random.key(0)
    return {
        "f32[]": jnp.float32(1.5), "f32[3]": jnp.arange(3.0), "f32[2,3]": jnp.ones((2, 3)), "f32[0]": jnp.zeros((0,)),
        "f32[3,3]": jnp.eye(3), "f32[2,3,3]": jnp.ones((2, 3, 3)), "i32[3]": jnp.arange(3), "i32[2,2]": jnp.ones((2, 2), int),
        "bool[2]": jnp.array([True, False]), "c64[2]": jnp.ones(2, complex), "bf16[3]": jnp.ones(3, jnp.bfloat16),
        "nan[3]": jnp.full(3, jnp.nan), "numpy f64[3]": np.ones(3), "object array": np.array([object()], object),
        "key": key, "keys": n.random.split(key, 2), "-1": -1, "0": 0, "1": 1, "7": 7, "10**12": 10**12, "-10**12": -10**12,
        "1.5": 1.5, "nan": float("nan"), "True": True, "None": None, "'text'": "text", "object()": object(), "()": (),
        "(2,)": (2,), "(-1,)": (-1,), "(2, 3)": (2, 3), "(10**6, 10**6)": (10**6, 10**6), "[1, [2]]": [1, [2]],
        "{'a': 1}": {"a": 1}, "slice": slice(0, 2), "float32": np.float32, "'int99'": "int99", "abs": abs, "...": ...,
        "1j": 1j, "range": range(3),
    }  # fmt: skip


BY_NAME = {
    "axis": ("-1", "0", "7", "1.5", "'text'", "(2, 3)", "10**12", "None"),
    "dtype": ("float32", "'int99'", "7", "None", "object()"),
    "shape": ("(2,)", "(-1,)", "(2, 3)", "(10**6, 10**6)", "1.5", "'text'", "f32[3]", "None"),
    "key": ("key", "keys", "7", "f32[3]", "None"),
    "axes": ("-1", "(2, 3)", "(-1,)", "'text'", "()"),
    "dimension": ("0", "7", "-1", "10**12", "'text'"),
    "axis_name": ("'text'", "7", "None"),
}


def calls(function, rng: random.Random, values: dict, count: int):
    """`count` ways of calling a function: `(names of positional arguments, names of keyword arguments)`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    needed = [
        p
        for p in parameters
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    optional = [p for p in parameters if p.default is not p.empty or p.kind is p.KEYWORD_ONLY]
    several = any(p.kind is p.VAR_POSITIONAL for p in parameters) or not parameters
    names = list(values)
    arrays = names[:13]

    def choose(p, i):
        special = BY_NAME.get(p.name)
        if special and rng.random() < 0.7:
            return rng.choice(special)
        return rng.choice(arrays if i == 0 and rng.random() < 0.6 else names)

    for _ in range(count):
        positional = [choose(p, i) for i, p in enumerate(needed)]
        if several:
            positional += [rng.choice(names) for _ in range(rng.randrange(3))]
        elif rng.random() < 0.08:
            positional = positional[:-1] if rng.random() < 0.5 else [*positional, rng.choice(names)]
        keywords = {
            p.name: choose(p, 1) for p in rng.sample(optional, min(len(optional), rng.randrange(3)))
        }
        if rng.random() < 0.04:
            keywords["no_such_argument"] = "1"
        yield positional, keywords


class _TooLong(BaseException):
    pass


def _alarm(*_):
    raise _TooLong


def outcome(function, args, kwargs) -> tuple[str, str]:
    """How a call ends: `("returned", "")`, or the class of the error (with its bases) and its first words."""
    signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(LIMIT)
    try:
        result = function(*args, **kwargs)
        for leaf in result if isinstance(result, (tuple, list)) else [result]:
            if hasattr(leaf, "block_until_ready"):
                leaf.block_until_ready()
        return "returned", ""
    except _TooLong:
        return "never ended", ""
    except BaseException as e:
        bases = [c.__name__ for c in type(e).__mro__ if c not in (object, BaseException, Exception)]
        return "/".join(bases), str(e)[:200]
    finally:
        signal.alarm(0)


def main(subject: str, module: str, count: int, seed: int, only: str = "") -> None:
    warnings.simplefilter("ignore")
    import numpy as np

    n = __import__(subject)
    for part in ("numpy", "lax", "random", *filter(None, [module])):
        __import__(f"{subject}.{part}")
    values = pool(n, np)
    for name, function in functions(n, module):
        if only and name != only:
            continue
        rng = random.Random(f"{seed} {module}.{name}")
        for positional, keywords in calls(function, rng, values, count):
            shown = f"{module}.{name}({', '.join([*positional, *(f'{k}={v}' for k, v in keywords.items())])})".lstrip(
                "."
            )
            print(json.dumps({"begin": shown}), flush=True)
            start = time.perf_counter()
            kind, words = outcome(
                function,
                [values[p] for p in positional],
                {k: values[v] for k, v in keywords.items()},
            )
            print(
                json.dumps(
                    {
                        "end": shown,
                        "kind": kind,
                        "words": words,
                        "seconds": time.perf_counter() - start,
                    }
                ),
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
