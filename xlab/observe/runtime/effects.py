"""`pending_effects`: which effects of programs are waited for."""

from __future__ import annotations

import threading

from xlab.compile.effects import waiting
from xlab.observe.records.effects import PendingEffect, PendingEffects


def pending_effects() -> PendingEffects:
    """The effects that programs of this process were started with and nobody has waited for, per thread. Looking waits for none.

    Example:
        >>> import xlab
        >>> _ = xlab.effects_barrier()
        >>> pending_effects().effects
        ()
    """
    names = {t.ident: t.name for t in threading.enumerate()}
    return PendingEffects(
        tuple(
            PendingEffect(
                str(effect) if effect is not None else "",
                devices,
                names.get(thread, "a thread that has ended"),
                done,
            )
            for thread, effect, devices, done in waiting()
        )
    )
