"""Fixtures shared by all tests; which tests a run takes, and in which order, is said in `tests/tiers.py`."""

from __future__ import annotations

import os
import shutil

import pytest

os.environ.setdefault("XLAB_NUM_CPU_DEVICES", "8")  # before the first import of xlab

try:
    import hypothesis
except ImportError:
    hypothesis = None
else:
    # One fixed sequence of examples, none remembered between runs, no deadline on a shared machine.
    hypothesis.settings.register_profile(
        "xlab", derandomize=True, deadline=None, database=None, max_examples=50, print_blob=False
    )
    hypothesis.settings.load_profile("xlab")

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def in_ci() -> bool:
    """Whether this run must not skip what a clean machine can be given."""
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")


def pytest_collect_file(file_path, parent):
    """Tables of samples are test files."""
    if file_path.match("samples*.py"):
        from tests.reference.table import Table

        return Table.from_parent(parent, path=file_path)


# Tests of values, types and errors: compiling is most of what they cost, and without the optimizations that take longest it is half.
COMPILED_QUICKLY = (
    "tests/core/",
    "tests/example_libraries/",
    "tests/experimental/",
    "tests/interpreters/",
    "tests/kernels/",
    "tests/lax/",
    "tests/nn/",
    "tests/numpy/",
    "tests/observe/sharding/",
    "tests/observe/stepping/",
    "tests/ops/",
    "tests/parallel/",
    "tests/random/",
    "tests/robustness/",
    "tests/scipy/",
    "tests/sharding/",
    "tests/sparse/",
    "tests/transforms/",
)
COMPILED_AS_USERS_DO = (
    "tests/experimental/test_transfer.py",
    "tests/kernels/test_memory.py",
    "tests/kernels/test_without_reference.py",
    "tests/lax/linalg/test_linalg.py",
    "tests/lax/test_compute_on.py",
    "tests/lax/test_control_deps.py",
    "tests/lax/test_inspecting.py",
    "tests/transforms/test_checkpoint.py",
    "tests/transforms/test_symbolic_shapes.py",
)
"""Of those, the ones that read what the compiler made."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Compiles for those tests as for samples; `XLAB_TEST_OPTIMIZED=1` compiles as users do."""
    if not item.nodeid.startswith(COMPILED_QUICKLY) or item.nodeid.startswith(COMPILED_AS_USERS_DO):
        return (yield)
    from tests.reference.harness import compiled_quickly

    with compiled_quickly():
        return (yield)


_ended = 0


def pytest_runtest_teardown():
    """A mesh that a test set for good is not the next one's, nor is the error of a callback that it did not wait for. Now and then the
    programs of tests that are over are let go of: all of them are gigabytes."""
    import sys

    if "xlab.sharding" in sys.modules:
        current = sys.modules["xlab.sharding.current"]
        if current.get_concrete_mesh() is not None:
            current.set_mesh(current.EMPTY_MESH)

    if "xlab.compile.effects" in sys.modules:
        sys.modules["xlab.compile.effects"].effects_barrier()

    global _ended
    _ended += 1
    if _ended % 2_000 == 0 and "xlab" in sys.modules:
        sys.modules["xlab"].clear_caches()


@pytest.fixture
def python_calls():
    """`python_calls(f, *args)` calls `f` and returns its result and the names of the Python functions entered: none where native code answers."""
    import sys

    def call(f, *args):
        names = []
        sys.setprofile(
            lambda frame, event, _: names.append(frame.f_code.co_name) if event == "call" else None
        )
        try:
            out = f(*args)
        finally:
            sys.setprofile(None)
        return out, names

    return call


@pytest.fixture
def empty_native_cache():
    """For tests that count a function's signatures: once the native cache is full (8 192 in all), its counts stay at 0."""
    from xlab.backend import dispatch

    dispatch.clear_native_caches()


@pytest.fixture
def clock(monkeypatch):
    """A fake `events.clock`: every reading is one millisecond later; `clock.advance(s)` waits."""
    from xlab import events

    fake = FakeClock()
    monkeypatch.setattr(events, "clock", fake)
    return fake


class FakeClock:
    """Counts milliseconds instead of measuring them; returns nanoseconds, as `events.clock` does."""

    def __init__(self, tick_ns: int = 1_000_000):
        self.now, self.tick = 0, tick_ns

    def __call__(self) -> int:
        self.now += self.tick
        return self.now

    def advance(self, seconds: float):
        """Lets `seconds` pass before the next reading."""
        self.now += round(seconds * 1e9)


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """A real IPython shell in this process, with an empty namespace and a home of its own."""
    interactiveshell = pytest.importorskip("IPython.core.interactiveshell")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    interactiveshell.InteractiveShell.clear_instance()
    config = pytest.importorskip("traitlets.config").Config(HistoryManager={"enabled": False})
    made = interactiveshell.InteractiveShell.instance(config=config)
    made.colors = "nocolor"
    try:
        yield made
    finally:
        if "xlab" in made.extension_manager.loaded:
            made.extension_manager.unload_extension("xlab")
        made.reset(new_session=False)
        made.history_manager.end_session()
        interactiveshell.InteractiveShell.clear_instance()


@pytest.fixture
def mesh():
    """A mesh of eight devices: 4 along `data`, 2 along `model`."""
    import xlab

    return xlab.make_mesh((4, 2), ("data", "model"), axis_types=(xlab.sharding.AxisType.Auto,) * 2)


@pytest.fixture(scope="session")
def oracle(request):
    """The reference implementation in a process of its own; see `tests/reference`. Who asks it is marked `reference`."""
    from tests.reference.oracle import Oracle, unavailable

    reason = unavailable()
    if reason:
        missing(reason)
    cache = getattr(request.config, "cache", None)
    process = Oracle(cache=cache.mkdir("reference") if cache is not None else None)
    yield process
    process.close()


@pytest.fixture(scope="session")
def executed(tmp_path_factory):
    """`executed(path)` is a notebook with the outputs of its cells, each executed once for all tests, in a kernel of its own.

    A cell that raises, or takes a minute, fails whoever asks first.
    """
    from tests import stored

    pytest.importorskip("nbconvert", reason="nbconvert is not installed (pip install 'xlab[test]')")
    folder = tmp_path_factory.mktemp("executed")

    def execute(path):
        if reason := stored.missing(path):
            pytest.skip(reason)
        if not (folder / path.name).exists():
            limit = f"--ExecutePreprocessor.timeout={stored.BUDGET}"
            stored.nbconvert(
                "--to=notebook",
                path,
                "--execute",
                limit,
                folder=folder,
                seconds=2 * stored.BUDGET + 60,
            )
        return folder / path.name

    return execute


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium. Without one the test is skipped, and fails when CI=true."""
    named = os.environ.get("XLAB_CHROMIUM")
    found = next(filter(None, map(shutil.which, [named] if named else _BROWSERS)), None)
    if found is None:
        missing(
            f"no browser: {named} is not there"
            if named
            else f"no browser: none of {', '.join(_BROWSERS)} is on the path (Debian: apt install chromium)"
        )
    return found


@pytest.fixture(scope="module")
def browser(chromium):
    """A headless Chromium driven by playwright, shared by a module.

    Playwright keeps an event loop running in this thread while it lives: there may be only one,
    and it ends with the module, lest a later test of this worker finds itself inside a loop.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed (pip install 'xlab[test]')")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        yield launched
        launched.close()


@pytest.fixture
def page(browser):
    """A new page, 1280 by 900, in which an uncaught error of the page fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    context.close()
    assert not errors, f"uncaught errors in the page: {errors}"


def missing(reason: str):
    """Skips the test for want of something, or fails it where CI promised to bring it."""
    (pytest.fail if in_ci() else pytest.skip)(reason)
