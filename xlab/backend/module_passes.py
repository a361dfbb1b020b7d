"""Passes of the user's own inside of the compiler: functions that get a module of HLO as bytes, and may give another."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

from xlab.backend import client as _client

Callback = Callable[[bytes], bytes | None]


class PipelineStage(enum.Enum):
    """When a pass runs: before the instructions are put in order, or after."""

    PRE_SCHEDULER = 0
    POST_SCHEDULER = 1


_registered: list[tuple[str, PipelineStage, str]] = []


def any_registered() -> bool:
    """Whether programs are compiled with passes of which their text says nothing."""
    return bool(_registered)


def register(name: str, stage: PipelineStage, callback: Callback, platforms: Sequence[str]) -> None:
    """Adds a pass to the compilers of these platforms, after those that are there."""
    from jaxlib import _xla

    for platform in platforms:
        if platform == "cpu":
            _xla.register_xla_transform(name, stage.value, callback)
        else:
            _xla.register_xla_transform_c_api(
                _client.client_of(platform), name, stage.value, callback
            )
        _registered.append((name, stage, platform))


def clear(name: str, stage: PipelineStage, platforms: Sequence[str]) -> bool:
    """Takes the passes of this name away; whether there were any."""
    from jaxlib import _xla

    found = False
    for platform in platforms:
        there = (name, stage, platform) in _registered
        _registered[:] = [one for one in _registered if one != (name, stage, platform)]
        if platform == "cpu":
            there |= _xla.clear_xla_transform(name, stage.value)
        elif there:
            _xla.clear_xla_transform_c_api(_client.client_of(platform), name, stage.value)
        found |= there
    return found


def platforms() -> tuple[str, ...]:
    """The platforms whose clients can be made."""
    return tuple(_client.clients())
