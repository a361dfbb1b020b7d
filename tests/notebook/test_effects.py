"""Callbacks in notebooks: what a cell's programs do has happened when the cell ends."""

from __future__ import annotations


def test_callbacks_finish_with_their_cell(shell):
    shell.run_cell("%load_ext xlab")
    shell.run_cell("""
        import time, xlab
        seen = []
        def slow(i):
            time.sleep(0.05)
            seen.append(int(i))
        f = xlab.jit(lambda n: xlab.lax.fori_loop(0, n, lambda i, c: (xlab.debug.callback(slow, i, ordered=True), c)[1], 0))
        started = f(3)
    """).raise_error()
    assert shell.user_ns["seen"] == [0, 1, 2]
    shell.run_cell("%unload_ext xlab")
    assert not any(f.__name__ == "_finish_effects" for f in shell.events.callbacks["post_run_cell"])


def test_a_callback_that_fails_is_told_of_at_the_end_of_the_cell(shell, capsys):
    shell.run_cell("%load_ext xlab")
    shell.run_cell("""
        import xlab
        def wrong(i):
            raise ValueError("told at the end")
        started = xlab.jit(lambda n: xlab.lax.fori_loop(0, n, lambda i, c: (xlab.debug.callback(wrong, i), c)[1], 0))(2)
    """)
    out = capsys.readouterr()
    assert "told at the end" in out.out + out.err
    shell.run_cell("ok = 1 + 1").raise_error()
