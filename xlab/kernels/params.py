"""Options for the compilers of platforms: parameters of kernels as dataclasses, and the rules that lower kernels with them.

On CPUs parameters are stored and have no effect. Another platform registers a rule for its class of parameters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class _Registered(NamedTuple):
    params_class: type
    rule: Callable[..., Any]


_rules: dict[str, _Registered] = {}
INTERPRETED = ("cpu", "cuda", "rocm", "gpu")


def register_lowering_rule(params_class: type, rule: Callable[..., Any], platform: str) -> None:
    """Registers how kernels are lowered on a platform.

    Args:
        params_class: the dataclass of that platform's `compiler_params`.
        rule: `rule(ctx, *operands, **params)` as of `xlab.interpreters.mlir.register_text_lowering`, with the parameters of the
            primitive `kernel_call`.
        platform: such as "tpu".

    Raises:
        TypeError: `params_class` is no dataclass.

    Example:
        >>> import dataclasses
        >>> from xlab.kernels import register_lowering_rule
        >>> @dataclasses.dataclass(frozen=True)
        ... class ToyParams:
        ...     stages: int = 2
        >>> register_lowering_rule(ToyParams, lambda ctx, *operands, **params: operands, "toy")
    """
    if not (isinstance(params_class, type) and dataclasses.is_dataclass(params_class)):
        raise TypeError(
            f"register_lowering_rule takes the dataclass of a platform's compiler_params, got {params_class!r}"
        )
    _rules[platform] = _Registered(params_class, rule)


def lowering_rule(platform: str, compiler_params: Any, name: str) -> Callable[..., Any] | None:
    """The rule registered for a platform; None where kernels are interpreted.

    Raises:
        ValueError: the parameters are those of another platform, or nothing lowers kernels there.
    """
    found, compiler_params = _rules.get(platform), given_params(compiler_params)
    if found is None and platform not in INTERPRETED:
        raise ValueError(
            f"cannot lower the kernel call of {name} on platform {platform}: no rule is registered for it. Register one with "
            f"xlab.kernels.register_lowering_rule, or pass interpret=True"
        )
    if compiler_params is None or (found and isinstance(compiler_params, found.params_class)):
        return found and found.rule
    home = next((p for p, r in _rules.items() if isinstance(compiler_params, r.params_class)), None)
    if home is not None:
        raise ValueError(
            f"the kernel call of {name} has compiler_params for the platform {home}, {compiler_params!r}, and is lowered for "
            f"{platform}"
        )
    return found and found.rule


def checked_compiler_params(params: Any) -> Any:
    """`compiler_params=` as it is stored: hashable.

    Raises:
        ValueError: it is neither an instance of a dataclass nor a dictionary.
    """
    if params is None or (dataclasses.is_dataclass(params) and not isinstance(params, type)):
        return params if _hashable(params) else FrozenParams(params)
    if isinstance(params, Mapping):
        return FrozenParams(dict(params))
    raise ValueError(
        f"compiler_params is an instance of a dataclass, such as one given to register_lowering_rule, or a dictionary; got {params!r}"
    )


class FrozenParams:
    """Parameters without a hash, as a parameter of an equation: compared as they print."""

    __slots__ = ("_text", "params")

    def __init__(self, params: Any):
        self.params, self._text = params, repr(params)

    def __eq__(self, other):
        return type(other) is FrozenParams and self._text == other._text

    def __hash__(self):
        return hash(self._text)

    def __repr__(self):
        return self._text


def given_params(params: Any) -> Any:
    """The compiler parameters as the user gave them."""
    return params.params if type(params) is FrozenParams else params


def _hashable(x) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True


def checked_metadata(metadata: Mapping[str, str] | None) -> tuple[tuple[str, str], ...] | None:
    """`metadata=` as it is stored: sorted pairs.

    Raises:
        ValueError: a key or a value is no string.
    """
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        raise ValueError(f"metadata maps strings to strings, got {metadata!r}")
    for k, v in metadata.items():
        if not (isinstance(k, str) and isinstance(v, str)):
            raise ValueError(f"metadata maps strings to strings, got the entry {k!r}: {v!r}")
    return tuple(sorted(metadata.items()))
