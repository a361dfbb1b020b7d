"""nbval with a kernel that repeats what an executed notebook holds (`-p tests.replayed --executed FILE`): nobody executes it twice."""

from __future__ import annotations


def pytest_addoption(parser):
    parser.addoption("--executed", help="the notebook with the outputs of its execution")


def pytest_configure(config):
    """In the whole process, which is there for one notebook."""
    import nbformat
    from nbval import plugin

    executed = nbformat.read(config.getoption("--executed"), as_version=4)
    plugin.RunningKernel = lambda *args, **kwargs: Replay(executed.cells)


class Replay:
    """The part of a kernel that nbval asks: each cell is answered with the outputs it had."""

    def __init__(self, cells):
        self._cells = iter(cells)
        self._messages = iter(())

    def execute_cell_input(self, source: str, allow_stdin: bool = False) -> str:
        """The outputs of the next cell with that source are the next messages."""
        cell = next((cell for cell in self._cells if cell.source == source), None)
        if cell is None:
            raise LookupError(f"no cell executed after the one before says {source!r}")
        found = [(output.output_type, output) for output in cell.outputs]
        found.append(("status", {"execution_state": "idle"}))
        self._messages = iter(
            {"msg_type": kind, "parent_header": {"msg_id": cell.id}, "content": content}
            for kind, content in found
        )
        return cell.id

    def get_message(self, stream: str, timeout: float | None = None) -> dict:
        return next(self._messages)

    def await_reply(self, asked: str, timeout: float | None = None):
        """It has come."""

    def await_idle(self, asked: str, timeout: float | None = None):
        """It is."""

    def is_alive(self) -> bool:
        return True

    def stop(self):
        """Nothing runs."""
