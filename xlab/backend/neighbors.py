"""JAX in the same process: what is said where a value of one package reaches a function of the other's.

Functions here take arrays of JAX's as they take NumPy's. What has no such meaning (a value that JAX traces, its random keys, its meshes) is
refused with what to write instead; and ours answer the questions that functions of JAX's ask of their arguments with the way back.
"""

from __future__ import annotations

import sys
from typing import Any

from xlab.backend import import_guard
from xlab.backend.native import neighbor_present

__all__ = ["answer_jax", "array_refusal", "is_jaxs", "refusal", "refuse_to_jax"]


def is_jaxs(x: Any) -> bool:
    """Whether the class of a value is JAX's own.

    >>> is_jaxs(3)
    False
    """
    return type(x).__module__.partition(".")[0] in ("jax", "jaxlib") and neighbor_present()


def refusal(x: Any) -> str:
    """What is said of a value of JAX's that no program here takes; empty for any other value.

    >>> refusal("text")
    ''
    """
    if not is_jaxs(x):
        return ""
    kind = type(x).__name__
    if kind == "PRNGKeyArray":
        return (
            f"a random key of JAX's ({x.dtype}{list(x.shape)}) was given to a function of xlab. Hand it over with "
            "xlab.random.wrap_key_data(jax.random.key_data(key)), or make one with xlab.random.key(seed)."
        )
    if "Tracer" in kind:
        return (
            f"a value that JAX traces, of type {x.aval}, was given to a function of xlab: each package traces its own functions. "
            "Call the function of the same name in jax, or let xlab trace the whole: xlab.jit(f), xlab.grad(f)."
        )
    if kind == "KeyTy":
        return (
            f"the type of random keys of JAX's ({x}) was given to a function of xlab. The one of xlab's is that of its keys: "
            "xlab.random.key(0).dtype."
        )
    what = (
        "Make one of xlab's over as many devices: xlab.make_mesh(mesh.axis_sizes, mesh.axis_names)."
        if "Mesh" in kind
        else "Make one of xlab's: xlab.NamedSharding(mesh, xlab.P(*spec)), with a mesh of xlab.make_mesh(sizes, names)."
        if "Sharding" in kind
        else "Write it as xlab.P(*spec)."
        if kind in ("P", "PartitionSpec")
        else "Take the one of the same name in xlab, or hand over what it holds as NumPy arrays."
    )
    return f"a {kind} of JAX's was given to a function of xlab. {what}"


def array_refusal(aval: Any) -> TypeError:
    """What is raised where a function of JAX's asks about the type of an array of ours."""
    return TypeError(
        f"a function of JAX was given an xlab array of type {aval}: in one process each package computes with its own arrays. "
        f"Hand it over with jax.numpy.from_dlpack(x), which shares the memory, or jax.numpy.asarray(numpy.asarray(x)); "
        f"or call the function of the same name in xlab, which takes arrays of both."
    )


def refuse_to_jax(aval: Any) -> None:
    """Raises for what JAX and we ask of types alike, where the function that asks for it is JAX's."""
    if neighbor_present():
        asking = sys._getframe(2).f_globals.get("__name__") or ""
        if asking.partition(".")[0] == "jax":
            raise array_refusal(aval)


def answer_jax(cls: type, names: tuple[str, ...], what: str, how: str) -> None:
    """Makes objects of a class say, where JAX asks them for one of `names`, that they are ours and how they are handed over.

    In a process without JAX they have no such attribute, so that nobody takes them for something else.
    """

    def asked(self: Any) -> Any:
        # JAX would put words of its own in the place of a TypeError's.
        raise RuntimeError(f"a function of JAX was given {what}, {self!r}. {how}")

    def answer() -> None:
        for name in names:
            setattr(cls, name, property(asked))

    import_guard.after_neighbor(answer)
    if neighbor_present():
        answer()
