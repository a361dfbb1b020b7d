"""What runs in each process of a group: it joins the others, runs cells that the notebook sends, and tells where it is.

Called by `processes.py` in the notebook's kernel, through ipyparallel. What a cell shows comes back as records, outputs and text, which
the kernel displays.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from typing import Any

_state: dict[str, Any] = {"index": 0, "cell": "", "folder": ""}
_telling = threading.Lock()
_BEAT = 0.2


def join(
    index: int,
    address: str,
    count: int,
    heartbeat: int,
    collective_timeout: int,
    devices: int,
    folder: str,
    kernel: str,
    ends: bool,
) -> dict[str, Any]:
    """Joins the group; says who this process is. On the machine called `kernel` it tells in the folder where it is, and if it `ends` with the
    group, it does when the folder is gone."""
    from IPython import get_ipython

    from xlab.config import config
    from xlab.parallel import group

    begun = time.perf_counter()
    # A launcher on another machine need not bring the kernel's environment there.
    config.update("num_cpu_devices", devices)
    group.join(address, count, index, heartbeat=heartbeat, collective_timeout=collective_timeout)
    import xlab

    get_ipython().run_line_magic("load_ext", "xlab")
    ids = [d.id for d in xlab.local_devices()]
    _state["index"] = index
    if kernel == socket.gethostname() and os.path.isdir(folder):
        threading.Thread(target=_beat, args=(folder, ends), daemon=True).start()
    return {
        "index": index,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "devices": ids,
        "seconds": time.perf_counter() - begun,
    }


def leave() -> None:
    """Leaves the group; the process lives on."""
    from xlab.backend import processes

    _state["folder"] = ""
    processes.leave()


def run(
    source: str, magic: tuple[str, str] | None, number: int, epoch: int, gate: str, limit: float
) -> dict[str, Any]:
    """Runs a cell: plain Python, or what stands below or behind a magic `(name, line)`.

    Returns what it wrote and showed, its error, and the programs that it started.
    """
    from IPython import get_ipython
    from IPython.utils.capture import capture_output

    from xlab.notebook import formatters
    from xlab.parallel import gate as gates

    shell, error = get_ipython(), None
    shell.execution_count = number
    shell.ast_node_interactivity = "last_expr"
    _state["cell"] = f"In[{number}]"
    formatters.collected = []
    begun = time.time()
    gates.begin(_state["cell"], epoch, gate=gate, limit=limit)
    try:
        with capture_output() as wrote:
            error = _run(shell, source, magic)
    except KeyboardInterrupt as told:  # between two lines of ours
        error = _told(told)
    finally:
        gates.end(f"{error['kind']}: {error['text'][:200]}" if error else "")
        records, formatters.collected = formatters.collected, None
        _state["cell"] = ""
        _tell()
    return {
        "index": _state["index"],
        "stdout": wrote.stdout,
        "stderr": _without_transport(wrote.stderr),
        "outputs": [(o.data, o.metadata) for o in wrote.outputs],
        "records": [r.to_json() for r in records],
        "error": error,
        "programs": [(s.name, s.fingerprint, s.line) for s in gates.started()],
        "begun": begun,
        "ended": time.time(),
    }


def _run(shell: Any, source: str, magic: tuple[str, str] | None) -> dict[str, Any] | None:
    try:
        if magic is None:
            result = _python(shell, source)
        elif source:
            result = shell.run_cell_magic(*magic, source)
        else:
            result = shell.run_line_magic(*magic)
        _finish()
        if result is not None:
            _show(result)
        return None
    except (Exception, KeyboardInterrupt) as told:
        return _told(told)


def _python(shell: Any, source: str) -> Any:
    """Runs plain Python; the value of the last expression. The shell would print errors, which here the kernel tells."""
    import ast

    # The shell drops empty lines in front; lines are numbered as the front end numbers them.
    above = len(source) - len(source.lstrip("\n"))
    whole = "\n" * above + shell.transform_cell(source)
    name = shell.compile.cache(whole, shell.execution_count, raw_code=source)
    tree = ast.parse(whole, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), shell.user_ns)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), name, "eval"), shell.user_ns)


def _finish() -> None:
    """Waits for what the cell has started, so that its errors are this cell's."""
    from xlab.backend import arrays
    from xlab.compile import effects

    effects.effects_barrier()
    arrays.block_until_idle()


def _show(result: Any) -> None:
    from IPython.display import display

    import xlab
    from xlab.notebook import formatters
    from xlab.observe.records import Record

    if isinstance(result, Record):
        formatters.show(result)
    elif isinstance(result, (xlab.Array, str, int, float, bool, tuple, list, dict)):
        print(repr(result))
    else:
        display(result)


def _told(error: BaseException) -> dict[str, Any]:
    """An error as plain data; the traceback begins at the user's first line."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [
        f for f in frames if "ipykernel_" in f.filename or f.filename.startswith("<")
    ] or frames[-1:]
    from xlab.core.source_info import shown_names

    def place(file: str) -> str:
        return shown_names.get(file) or (_state["cell"] if "ipykernel_" in file else file)

    lines = [f"  {place(f.filename)}, line {f.lineno}: {f.line}" for f in users]
    return {
        "kind": type(error).__name__,
        "text": str(error),
        "traceback": "\n".join(lines),
        "line": users[-1].lineno if users else 0,
    }


def _without_transport(text: str) -> str:
    """Without the lines of the transport, which a user cannot place."""
    return "".join(line for line in text.splitlines(True) if not line.startswith("[Gloo]"))


def value(name: str) -> tuple[str, Any]:
    """What this process has under a name: its text, and the value where it can be sent as NumPy."""
    import numpy as np
    from IPython import get_ipython

    import xlab

    found = get_ipython().user_ns[name]
    if isinstance(found, xlab.Array) and not isinstance(found, xlab.core.trace.Tracer):
        try:
            return repr(found), np.asarray(found)
        except RuntimeError:
            return repr(found), [
                (tuple((s.start, s.stop) for s in shard.index), np.asarray(shard.data))
                for shard in found.addressable_shards
            ]
    return repr(found), found if isinstance(found, (int, float, str, bool, type(None))) else None


# -- where this process is ------------------------------------------------------------------------------------


def _beat(folder: str, ends: bool) -> None:
    """Writes where the process is, for the kernel on the same machine, and ends it with the kernel."""
    _state["folder"] = folder
    while os.path.isdir(folder):
        _tell()
        time.sleep(_BEAT)
    if ends:
        os.kill(os.getpid(), signal.SIGKILL)


def _tell() -> None:
    if _state["folder"]:
        path = os.path.join(_state["folder"], f"process{_state['index']}.json")
        with contextlib.suppress(OSError, ValueError), _telling:
            with open(path + ".new", "w") as file:
                json.dump(_where(), file)
            os.replace(path + ".new", path)


def _where() -> dict[str, Any]:
    from xlab.parallel import gate, group

    at, done = gate.waiting(), gate.started()
    return {
        "time": time.time(),
        "cell": _state["cell"],
        "programs": len(done),
        "waiting": [at.name, at.line, time.time() - at.begun] if at else None,
        "last": [done[-1].name, done[-1].line] if done else None,
        "line": _user_line() if _state["cell"] else "",
        "resident": group.resident_bytes() or 0,
    }


def _user_line() -> str:
    """The line of the cell that the main thread is in."""
    main = threading.main_thread().ident
    frame = sys._current_frames().get(main) if main is not None else None
    while frame is not None:
        if "ipykernel_" in frame.f_code.co_filename:
            return f"{_state['cell']}, line {frame.f_lineno}"
        frame = frame.f_back
    return ""
