"""Makes the picture of the README again: the report of the training notebook's cell, with what is chosen in it marked at every level.

python -m tests.notebook.readme_picture [PATH]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.conftest import _BROWSERS
from xlab.notebook import lab, tour
from xlab.notebook.export import write_html

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / ".github" / "report.png"


def main(path: Path = PICTURE) -> None:
    """Runs the notebook for one epoch and takes a picture of its report's program."""
    from playwright.sync_api import sync_playwright

    folder = lab.notebook_folder()
    assert folder is not None, "the notebooks are not installed"
    _, report = tour.run(folder / tour.NOTEBOOK, {"EPOCHS": 1})
    chromium = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        page_file = Path(write_html(report.replace(title="digits"), Path(home) / "report.html"))
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 760}, color_scheme="light")
        page.goto(page_file.as_uri())
        page.get_by_role("tab", name="Program").click()
        page.get_by_label("find in program").fill("softmax")
        page.keyboard.press("Enter")
        page.wait_for_timeout(500)
        page.screenshot(path=path)
        browser.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
