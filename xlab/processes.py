"""Several processes behind one notebook: `start`, `current`, `Group`. Needs the extra `processes` (ipyparallel)."""

from xlab.notebook.processes import Group, current, start

__all__ = ["Group", "current", "start"]
