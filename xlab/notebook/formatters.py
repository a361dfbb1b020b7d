"""Objects as records, records as outputs: `show`, and what meshes, shardings, arrays and programs display themselves as.

One output is one bundle: `text/plain` that is the same on every run, `text/html` that needs no kernel and no network, and
the live view on top where a kernel and the widget packages are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from html import escape
from importlib.util import find_spec
from typing import Any

_live: dict[str, list[Any]] = {}

collected: list[Any] | None = None
"""Where `show` leaves its records instead of displaying them, in a process whose notebook is elsewhere; None in all others."""


def show(
    value: Any,
    shape: tuple[int, ...] | None = None,
    *,
    plain: str | None = None,
    handlers: Mapping[str, Callable[..., Any]] | None = None,
) -> None:
    """Displays a record, a sharding, a mesh, an array, a program or a stage of one, or the machine of a kernel.

    Args:
        value: what to show; a sharding needs `shape`.
        plain: the text to show where there are no pictures, instead of the record's own.
        handlers: what answers the requests of the live view, by name.

    Example:
        >>> import xlab.numpy as jnp
        >>> show(jnp.ones((2, 3)))
        f32[2,3] on device 0, 24 B, uncommitted
    """
    from xlab.kernels.machine import Machine
    from xlab.notebook.views import view_for

    if isinstance(value, Machine):
        from xlab.observe.kernel_runs.recording import KernelSession

        session = KernelSession(value)
        value, handlers = session.run, {**session.handlers(), **(handlers or {})}
    record = record_of(value, shape)
    if _are_findings(value):
        plain = plain or repr(
            value
        )  # the text of a report leaves out what differs between machines
    if collected is not None:
        collected.append(record)
        return
    shell = kernel_shell()
    other = _marimo() if shell is None else None
    if other is not None:
        other.output.append(record)
        return
    if shell is None:
        from xlab.observe.records.text import text

        print(plain or (text(record, times=True) if _is_report(record) else text(record)))
        return
    from IPython.display import display

    data, metadata = bundle(view_for(record), record, shell, handlers)
    if plain is not None:
        data = {**data, "text/plain": plain}
    display(data, metadata=metadata, raw=True)


def record_of(value: Any, shape: tuple[int, ...] | None = None) -> Any:
    """The record that describes a value.

    Raises:
        TypeError: nothing is known that would describe it.
    """
    import xlab
    from xlab import observe
    from xlab.compile.stages import Compiled, Lowered, Traced
    from xlab.core.jaxpr import ClosedJaxpr, Jaxpr
    from xlab.kernels.machine import Machine
    from xlab.observe.beside.recognize import is_theirs, kind_of
    from xlab.observe.records import Record
    from xlab.sharding import AbstractMesh, Mesh

    if isinstance(value, Record):
        return value
    if isinstance(value, (Mesh, AbstractMesh)):
        from xlab.observe.programs.program import mesh_info

        info = mesh_info(value)
        return info.replace(platform="abstract") if isinstance(value, AbstractMesh) else info
    if is_theirs(value):
        return observe.layout(value)
    if kind_of(value) not in ("", "jit"):
        return observe.program(value)
    if isinstance(value, xlab.sharding.Sharding):
        if shape is None:
            raise TypeError(
                f"{value!r} says how an array lies on devices, for any shape: show(sharding, shape=(8, 4))"
            )
        return observe.layout(value, shape)
    if isinstance(value, xlab.Array) or (
        isinstance(value, xlab.ShapeDtypeStruct) and value.sharding is not None
    ):
        return observe.layout(value)
    if isinstance(value, (Jaxpr, ClosedJaxpr, Traced, Lowered, Compiled)):
        return observe.program(value)
    if isinstance(value, Machine):
        return observe.kernel_run(value)
    if _are_findings(value):
        return _found_report(value)
    if isinstance(value, (dict, list, tuple)) or not xlab.tree.all_leaves([value]):
        return observe.sharding_tree(value)
    raise TypeError(
        f"show() takes a record of xlab.observe, a mesh, a sharding with a shape, an array, a pytree of arrays, a jaxpr, a stage of jit or "
        f"a kernel's machine; given {type(value).__name__}. For a function: show(observe.program(f, *args))."
    )


def _are_findings(value: Any) -> bool:
    return isinstance(value, tuple) and type(value).__name__ == "Findings"


def _found_report(found: Any) -> Any:
    """What `observe.findings` returned, as a report of nothing else."""
    from xlab.observe.records import Notice, Report

    said = [found.made_by] * bool(found.made_by) + ["no findings"] * (not found)
    return Report(
        "findings",
        findings=tuple(found),
        patterns=found.patterns,
        notices=tuple(Notice("info", words, "overview") for words in said),
    )


def has_widgets() -> bool:
    """Whether a live view can be made here."""
    return find_spec("anywidget") is not None and find_spec("ipywidgets") is not None


def _marimo() -> Any:
    """The module marimo where one of its notebooks runs this, or None."""
    import sys

    module = sys.modules.get("marimo")
    return module if module is not None and module.running_in_notebook() else None


def _is_report(record: Any) -> bool:
    return type(record).__name__ == "Report"


def kernel_shell() -> Any:
    """The shell of a notebook kernel or of anything else that shows rich output; None in a terminal or a script."""
    import sys

    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    rich = shell is not None and (
        getattr(shell, "kernel", None) is not None
        or type(shell).__name__ != "TerminalInteractiveShell"
    )
    return shell if rich else None


def bundle(
    view: Any, record: Any, shell: Any, handlers: Any, where: tuple[str, int] | None = None
) -> tuple[dict, dict]:
    """The bundle, with the widget on top where this shell belongs to a kernel. Running a cell again closes its old widgets."""
    from xlab.notebook.views.saved import carries_code

    cell, run = where or place(shell)
    payload = view.payload(record)
    code = carries_code(view, payload, cell)
    if getattr(shell, "kernel", None) is None or not has_widgets() or not _somebody_looks(shell):
        return view.bundle(record, payload, code), {}
    try:
        from xlab.notebook.views.widget import ReportWidget

        widget = ReportWidget(view, record, handlers, _forget_closed, payload, code)
        live = widget._repr_mimebundle_()
    except Exception as error:  # the saved page says the same; only its liveliness is missing
        data = view.bundle(record, payload, code)
        return {
            **data,
            "text/plain": f"{data['text/plain']}\n(no live view: {type(error).__name__}: {error})",
        }, {}
    for old in [w for number, w in _live.get(cell, ()) if number != run]:
        old.close()
    _live.setdefault(cell, []).append((run, widget))
    return live if isinstance(live, tuple) else (live, {})


def _forget_closed() -> None:
    """Takes from the list of live views those that are closed."""
    for cell, kept in list(_live.items()):
        _live[cell] = [(run, widget) for run, widget in kept if widget.is_open]
        if not _live[cell]:
            del _live[cell]


def _somebody_looks(shell: Any) -> bool:
    """Whether a front end is connected, not a program that only stores outputs, where a widget could not load.

    Front ends name the cell they run; nbconvert, papermill and consoles do not.
    """
    from xlab.notebook.views.saved import in_colab

    return "cellId" in asked(shell) or in_colab()


def asked(shell: Any) -> dict[str, Any]:
    """The front end's metadata of the running cell."""
    try:
        return shell.get_parent().get("metadata", {})
    except AttributeError:
        return {}


def place(shell: Any) -> tuple[str, int]:
    """The running cell by the front end's id, and the number of its run."""
    return str(asked(shell).get("cellId") or f"run {shell.execution_count}"), shell.execution_count


# ------------------------------------------------------------------------------------ what objects show themselves as


def _page(value: Any) -> str | None:
    from xlab.notebook.views import view_for

    record = record_of(value)
    view = view_for(record)
    payload = view.payload(record)
    return view.static_html(record, payload, _has_code(view, payload))


def _has_code(view: Any, payload: Any) -> bool:
    """Whether a picture in the running cell carries the script of its views."""
    from xlab.notebook.views.saved import carries_code

    shell = kernel_shell()
    return shell is None or carries_code(view, payload, place(shell)[0])


def _drawn(value: Any) -> dict[str, str]:
    """The page of an object and its drawing as an image, drawn once for both."""
    from xlab.notebook.views import view_for
    from xlab.notebook.views.static_svg import static_svg

    record = record_of(value)
    view = view_for(record)
    payload = view.payload(record)
    return _both(
        view.static_html(record, payload, _has_code(view, payload)), static_svg(payload["tree"])
    )


def _both(page: str, image: str | None) -> dict[str, str]:
    return {"text/html": page, "image/svg+xml": image} if image is not None else {"text/html": page}


def _plain(value: Any) -> str:
    """The text form as the notebook shows text; a `pre` or `code` would take the host's grey."""
    return (
        "<div style='white-space:pre;overflow-x:auto;font-family:var(--jp-code-font-family,monospace);"
        "font-size:var(--jp-code-font-size,13px);line-height:var(--jp-code-line-height,1.3)'>"
        f"{escape(repr(value))}</div>"
    )


def _sharding(sharding: Any) -> dict[str, str]:
    """The mesh, and which of its axes split which dimension."""
    drawn = _drawn(sharding.mesh)
    return {**drawn, "text/html": _plain(sharding) + drawn["text/html"]}


def _array(array: Any) -> dict[str, str]:
    """For an array on several devices the text and a badge that opens the drawing; empty for other arrays."""
    import xlab
    from xlab import observe
    from xlab.notebook.views import view_for
    from xlab.notebook.views.page import inline
    from xlab.notebook.views.static_svg import static_svg
    from xlab.observe.records.layout import layout_line

    if not isinstance(array, xlab.Array) or len(array.sharding.device_set) < 2:
        return {}
    try:
        shown = _plain(array)
    except Exception:  # values that cannot be read: the text form, which comes next, says why
        return {}
    layout = observe.layout(array)
    view = view_for(layout)
    tree = view.tree(layout)
    page = (
        f"{shown}<details style='margin-top:6px'><summary style='cursor:pointer;font-size:12px'>"
        f"<span style='border:1px solid currentColor;border-radius:4px;padding:1px 7px;opacity:.8;display:inline-block;vertical-align:top;box-sizing:border-box;max-width:calc(100% - 2em);"
        f"font-family:var(--jp-code-font-family,monospace)'>{escape(layout_line(layout))}</span></summary>"
        f"{inline(view, tree)}</details>"
    )
    return _both(page, static_svg(tree))


# By name, so that nothing is imported before such an object exists.
_BUNDLES: dict[tuple[str, str], Callable[[Any], dict[str, str]]] = {
    ("xlab.sharding.mesh", "Mesh"): _drawn,
    ("xlab.sharding.mesh", "AbstractMesh"): _drawn,
    ("xlab.sharding.named", "NamedSharding"): _sharding,
    ("jaxlib._jax", "ArrayImpl"): _array,
}
_PAGES: dict[tuple[str, str], Callable[[Any], str | None]] = {
    ("xlab.core.jaxpr", "Jaxpr"): _page,
    ("xlab.core.jaxpr", "ClosedJaxpr"): _page,
    ("xlab.compile.stages", "Traced"): _page,
    ("xlab.compile.stages", "Lowered"): _page,
    ("xlab.compile.stages", "Compiled"): _page,
}


def _registered(shell: Any) -> Iterator[tuple[Any, str, str, Callable[[Any], Any]]]:
    formatter = shell.display_formatter
    for of, forms in (
        (formatter.mimebundle_formatter, _BUNDLES),
        (formatter.formatters["text/html"], _PAGES),
    ):
        for (module, name), form in forms.items():
            yield of, module, name, form


def register(shell: Any) -> None:
    """Registers our types with the shell's formatters."""
    for formatter, module, name, form in _registered(shell):
        formatter.for_type_by_name(module, name, form)


def unregister(shell: Any) -> None:
    """Unregisters the types."""
    for formatter, module, name, _ in _registered(shell):
        formatter.pop(f"{module}.{name}", None)
