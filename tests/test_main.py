"""The command line without a subcommand, and the fixtures that the other tests stand on."""

from __future__ import annotations

import os

import pytest

import xlab
from xlab import __main__ as command


def test_version(capsys):
    assert command.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("xlab 0.1.0")


def test_overview_names_devices_rules_and_rooms(capsys):
    assert command.main([]) == 0
    text = capsys.readouterr().out
    assert f"devices   {xlab.device_count()} × cpu" in text
    assert "primitives" in text
    assert "lax" in text
    assert "with a rule" in text


def test_the_matrix_has_a_row_for_every_primitive():
    from xlab.core.primitive import all_primitives

    rows = command.rule_matrix()
    names = {row.split()[0] for row in rows[2:]}
    assert {p.name for p in all_primitives()} <= names


def test_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit):
        command.main(["--help"])
    text = capsys.readouterr().out
    assert all(name in text for name in command.COMMANDS)


def test_an_unknown_command_is_an_error(capsys):
    with pytest.raises(SystemExit) as stopped:
        command.main(["tuor"])
    assert stopped.value.code == 2
    assert "tuor" in capsys.readouterr().err


def test_eight_devices():
    assert os.environ["XLAB_NUM_CPU_DEVICES"] == "8"
    assert xlab.device_count() == 8


def test_the_clock_is_fake(clock):
    from xlab import events

    start = events.clock()
    clock.advance(2.0)
    assert events.clock() - start == 2_001_000_000


def test_the_shell_is_real(shell):
    assert shell.run_cell("value = 6 * 7").success
    assert shell.user_ns["value"] == 42
    assert not shell.run_cell("1 / 0").success


def test_the_mesh(mesh):
    assert dict(mesh.shape) == {"data": 4, "model": 2}
