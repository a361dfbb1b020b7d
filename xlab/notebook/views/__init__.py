"""Views draw records: a tree that reads without a script, and what a page needs to make it answer.

In reading order: `draw.py` (trees), `base.py` (what a view is), `animated.py` (what moves as a GIF), `tabs.py` (what it adds to a report), `page.py` (a tree as a document), `saved.py` (a tree as the HTML of an output; `shared.py`: what the outputs of a notebook share), then
one file per view, and `widget.py` (the live form, imported only when used). A view imports `xlab.observe` and nothing of the runtime.
A view is a file here and the `.js` and `.css` of its name in `js/views`; there is no list of them.

Also: `buffers.py` (the buffers of a program drawn), `caches.py` (the caches of programs), `effects.py` (pending effects), `grids.py` (arrays and meshes as tables), `settings.py`
(the settings), `dataflow.py` (the collectives view), `dataflow_data.py` (what it is drawn from), `collective_rows.py` (its list), `headings.py` (calls as headings), `diff.py` (the comparison
view), `kernel.py` (the kernel view; its pictures in `kernel_figures.py`), `ladder.py` (the ladder view), `layout.py` (the sharding view), `ledger.py` (the ledger), `levels.py` (later
forms of a program as columns for the page), `live.py` (live arrays), `memory.py` (the memory view), `peak_calls.py` (its peak by calls), `mesh.py` (the
mesh in its own coordinates), `overlap.py` (collectives that are started and waited for), `overview.py` (the first tab of a report: where a step goes), `page_codec.py` (how a page's data travels), `passes.py` (the passes of the compiler),
`processes.py` (several processes on one clock), `program.py` (the program view), `replay.py` (a collective step by step; its pictures of sums and exchanges in `collective_figures.py`), `report.py` (the report of one cell), `resharding.py` (the comparison of two layouts
of one array), `sharding_tree.py` (a pytree on devices), `static_svg.py` (the first drawing of a view as an SVG file of its own), `stepper.py` (the stepper),
`targets.py` (the targets), `timeline.py` (the device timeline), `timings.py` (the timings view), `transposed.py` (collectives forwards and backwards), `whatif.py` (other placements of the arguments).

>>> from xlab.observe.records import Report
>>> view_for(Report("f")).name
'report'
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from xlab.notebook.views.base import VIEWS, View
from xlab.observe.records import Record

for _name in sorted(
    (module.name for module in iter_modules(__path__)), key=lambda name: name != "report"
):
    if _name != "widget":  # needs packages that need not be there
        import_module(f"{__name__}.{_name}")


def view_for(record: Record) -> View:
    """Return the view that draws this kind of record.

    Raises:
        TypeError: no view draws it; its text form still exists.
    """
    for view in VIEWS:
        if view.record_type is type(record):
            return view
    known = ", ".join(v.record_type.__name__ for v in VIEWS)
    raise TypeError(
        f"no view draws {type(record).__name__}; views draw {known}. Print it for its text form."
    )
