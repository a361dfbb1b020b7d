"""Effects at run time: tokens that keep them in order, and waiting for them.

An ordered effect has a token, an empty array that every program with that effect takes and gives back, so that programs
dispatched one after the other act one after the other. Every program with effects also leaves a completion token on each
of its devices, which `effects_barrier` and the end of the process wait for. Each thread has its own tokens.
"""

from __future__ import annotations

import atexit
import threading
from typing import Any

import numpy as np

from xlab.backend import arrays as _arrays
from xlab.backend import failures, watchdog
from xlab.backend.transfer_guards import explicit_transfer
from xlab.core import effects as _effects
from xlab.core.avals import ShapedArray
from xlab.core.effects import Effect
from xlab.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

_TOKEN = ShapedArray((0,), np.dtype(bool))


class RuntimeTokenSet(threading.local):
    """The latest tokens of one thread: one per ordered effect, and completion tokens per device."""

    def __init__(self):
        self.current_tokens: dict[Effect, Any] = {}
        self.output_runtime_tokens: dict[Any, Any] = {}
        # Also known under the thread's number, so that the process does not end before a finished thread's effects.
        _by_thread[threading.get_ident()] = (self.current_tokens, self.output_runtime_tokens)

    def get_token_input(self, effect: Effect, devices: tuple) -> Any:
        """The token that the next program with this effect takes, on the program's devices."""
        token = self.current_tokens.get(effect)
        if token is not None:
            if tuple(token.sharding.devices_in_order) == tuple(devices):
                return token
            # Other devices: nothing but waiting orders the two programs.
            _arrays.block_until_ready([token])
        token = self.current_tokens[effect] = _new_token(tuple(devices))
        return token

    def set_token_result(self, effect: Effect, token: Any) -> None:
        """Remembers the token that the latest program with this effect gives back."""
        self.current_tokens[effect] = token

    def set_output_runtime_token(self, device: Any, token: Any) -> None:
        """Remembers the completion token of the latest program with effects on a device."""
        self.output_runtime_tokens[device] = token

    def wait_for(self, effect: Effect) -> None:
        """Waits until everything dispatched so far with an ordered effect has happened."""
        token = self.current_tokens.get(effect)
        if token is not None:
            _arrays.block_until_ready([token])

    def clear(self) -> None:
        """Forgets all tokens."""
        self.current_tokens.clear()
        self.output_runtime_tokens.clear()

    def block_until_ready(self) -> None:
        """Waits for all of them, then forgets them; raises what an effect raised."""
        tokens = [*self.current_tokens.values()], [*self.output_runtime_tokens.values()]
        self.clear()
        _wait(*tokens)


def _wait(ordered, completions) -> None:
    error = None
    if ordered or completions:
        watchdog.wait()
    for wait in (
        *(lambda t=t: _arrays.block_until_ready([t]) for t in ordered),
        *(t.block_until_ready for t in completions),
    ):
        try:
            wait()
        except failures.RuntimeFailure as e:
            error = error or e
    if error is not None:
        failures.reraise(error)


_by_thread: dict[int, tuple[dict, dict]] = {}
runtime_tokens = RuntimeTokenSet()


def waiting() -> list[tuple[int, Effect | None, tuple[int, ...], bool | None]]:
    """What is waited for: the thread's number, the effect (None without an order), ids of the devices, and whether it has happened.

    Nobody can say that of effects without an order but by waiting: None.
    """
    found: list[tuple[int, Effect | None, tuple[int, ...], bool | None]] = []
    for thread, (ordered, completions) in list(_by_thread.items()):
        found += [
            (thread, e, tuple(d.id for d in t.sharding.devices_in_order), t.is_ready())
            for e, t in list(ordered.items())
            if not t.is_deleted()
        ]
        found += [(thread, None, (d.id,), None) for d in list(completions)]
    return found


def effects_barrier() -> None:
    """Waits until the callbacks of all programs that this thread has started have run.

    Example:
        >>> import xlab
        >>> seen = []
        >>> y = xlab.jit(lambda x: (xlab.debug.callback(seen.append, x), x)[1])(1.0)
        >>> xlab.effects_barrier()
        >>> len(seen)
        1
    """
    runtime_tokens.block_until_ready()


@atexit.register
def wait_for_tokens() -> None:
    """Waits for the effects of all threads, before the process ends."""
    for ordered, completions in list(_by_thread.values()):
        tokens = [*ordered.values()], [*completions.values()]
        ordered.clear()
        completions.clear()
        _wait(*tokens)


def _new_token(devices: tuple):
    sharding = (
        SingleDeviceSharding(devices[0])
        if len(devices) == 1
        else NamedSharding(Mesh(np.array(devices, dtype=object), ("token",)), PartitionSpec())
    )
    with explicit_transfer():
        return _arrays.put([np.zeros(0, bool)] * len(devices), _TOKEN, sharding, list(devices))


def check_devices(effects, devices: tuple) -> int:
    """How many tokens a program on these devices needs; raises for ordered effects that need one device."""
    ordered = _effects.in_order(effects)
    if len(devices) > 1:
        wrong = [str(e) for e in ordered if not e.shardable]
        if wrong:
            raise ValueError(
                f"The following ordered effects are not supported for more than 1 device: [{', '.join(wrong)}]. This program runs "
                f"on {len(devices)} devices. Leave ordered=True out, or use io_callback(..., ordered=True), which may be split"
            )
    return len(ordered)


def at_run_time(lowered) -> bool:
    """Whether the program has run-time effects to wait for besides its results."""
    return bool(lowered.module.callbacks or lowered.module.ordered)


def run(executable, args) -> list:
    """Starts a program with effects: tokens precede its arguments, and its completion token is kept."""
    ordered, devices = executable.ordered, executable.devices
    tokens = [runtime_tokens.get_token_input(e, devices) for e in ordered]
    handlers = executable.handlers
    if ordered:
        handlers = [*(_arrays.result_handler(_TOKEN, t.sharding, True) for t in tokens), *handlers]
    try:
        outs, done = _arrays.execute_with_token(
            executable.native,
            [*tokens, *args],
            handlers,
            # What callbacks of several devices start may come after their own program: that is seen where each has its turn.
            needs_serial_launch=len(devices) > 1,
            describe=executable.describe_stuck,
        )
    except failures.RuntimeFailure as e:
        failures.reraise(e)
    for effect, token in zip(ordered, outs):
        runtime_tokens.set_token_result(effect, token)
    local = [d for d in devices if d.process_index == d.client.process_index()]
    for i, device in enumerate(local):
        runtime_tokens.set_output_runtime_token(device, done.get_token(i))
    if executable.needs_serial_launch and executable.callbacks:
        _raise_failures(executable.callbacks, done)
    return outs[len(ordered) :]


def _raise_failures(callbacks, done) -> None:
    """Waits for a program, and raises the error that one of its callbacks raised."""
    watchdog.wait()
    done.block_until_ready()
    for callback in callbacks:
        if callback.failures:
            message, cause, place = callback.failures[0]
            for one in callbacks:
                one.failures.clear()
            failures.fail(message, cause, place)
