"""The persistent cache: stored, found after forgetting and by another process, distrusted when broken, and able to say what differs."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import xlab
from xlab import lax, monitoring, observe
from xlab.config import config

X = np.ones(8, np.float32)


@pytest.fixture
def folder(tmp_path):
    before = config.compilation_cache_dir, config.persistent_cache_min_compile_time_secs
    config.update("compilation_cache_dir", str(tmp_path / "cache"))
    config.update("persistent_cache_min_compile_time_secs", 0.0)
    yield tmp_path / "cache"
    config.update("compilation_cache_dir", before[0])
    config.update("persistent_cache_min_compile_time_secs", before[1])


def last(name):
    return [e for e in observe.ledger().entries if e.function == name][-1]


def stored(folder):
    return sorted(folder.glob("*-cache"))


def test_a_program_is_found_again(folder):
    def wave_on_disk(x):
        return lax.sin(x) * 2

    first = xlab.jit(wave_on_disk)(X)
    assert last("wave_on_disk").cache == "disk miss" and len(stored(folder)) == 1
    xlab.clear_caches()
    with observe.record() as session:
        again = xlab.jit(wave_on_disk)(X)
    np.testing.assert_array_equal(first, again)
    assert last("wave_on_disk").cache == "disk hit" and len(stored(folder)) == 1
    phases = observe.phases(session)
    assert {(p.kind, p.where) for p in phases if p.cache} == {
        ("cache_miss", "memory"),
        ("cache_hit", "disk"),
        ("compile", "disk"),
    }
    assert "wave_on_disk, compile 2, from disk" in observe.text(last("wave_on_disk"))


def test_places_in_the_source_are_no_part_of_the_key(folder):
    def looped(x):
        for _ in range(2):
            x = lax.sin(x)
        return x

    xlab.jit(looped, name="sines_on_disk")(X)
    xlab.jit(lambda x: lax.sin(lax.sin(x)), name="sines_on_disk")(X)
    assert last("sines_on_disk").cache == "disk hit" and len(stored(folder)) == 1


def test_many_devices_and_memory_survive(folder):
    mesh = xlab.make_mesh((8,), ("data",), axis_types=(xlab.sharding.AxisType.Auto,))
    x = xlab.device_put(np.arange(64.0, dtype=np.float32), xlab.NamedSharding(mesh, xlab.P("data")))

    def summed_on_disk(x):
        return xlab.numpy.sum(x * x)

    first = xlab.jit(summed_on_disk)(x)
    xlab.clear_caches()
    f = xlab.jit(summed_on_disk)
    assert float(f(x)) == float(first) and last("summed_on_disk").cache == "disk hit"
    assert [t.kind for t in observe.transfers(f, x)] == ["all_reduce"] and observe.memory(
        f, x
    ).arguments == 32


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda f: f(np.ones(9, np.float32)), "argument types"),
        (
            lambda f: xlab.jit(
                f.__wrapped__,
                name="cosine_on_disk",
                compiler_options={"xla_embed_ir_in_executable": True},
            )(X),
            "compiler options",
        ),
        (lambda f: f(xlab.device_put(X, xlab.devices()[1])), "devices"),
    ],
)
def test_the_part_of_the_key_that_differs_is_named(folder, change, part):
    f = xlab.jit(lambda x: lax.cos(x), name="cosine_on_disk")
    f(X)
    assert "no program called `cosine_on_disk`" in last("cosine_on_disk").disk
    xlab.clear_caches()
    change(f)
    entry = last("cosine_on_disk")
    assert (
        part in [d.what for d in entry.differences if d.cause == "disk cache"]
        and f"{part} went from" in entry.disk
    )


def test_another_text_of_the_program_is_named(folder):
    for scale in 2, 3:

        def scaled_on_disk(x, scale=scale):
            return x * scale

        xlab.jit(scaled_on_disk)(X)
    assert "the text of the program is another" in last("scaled_on_disk").disk


def test_a_broken_entry_is_compiled_again(folder):
    f = xlab.jit(lambda x: lax.tan(x), name="tangent_on_disk")
    expected = f(X)
    stored(folder)[0].write_bytes(b"junk")
    xlab.clear_caches()
    with pytest.warns(
        UserWarning, match="error reading persistent compilation cache entry for 'tangent_on_disk'"
    ):
        again = f(X)
    np.testing.assert_array_equal(expected, again)
    stored(folder)[0].write_bytes(b"junk")
    xlab.clear_caches()
    config.update("raise_persistent_cache_errors", True)
    try:
        with pytest.raises(ValueError, match="no entry of this cache"):
            f(X)
    finally:
        config.update("raise_persistent_cache_errors", False)


def test_callbacks_and_quick_compiles_are_not_stored(folder):
    xlab.jit(lambda x: (xlab.debug.print("{}", x), x)[1], name="talks")(X)
    assert last("talks").cache == "" and not stored(folder)
    config.update("persistent_cache_min_compile_time_secs", 1000.0)
    xlab.jit(lambda x: lax.exp(x), name="quick")(X)
    assert last("quick").cache == "disk miss" and not stored(folder)


def test_the_oldest_go_when_it_is_full(folder):
    before = config.compilation_cache_max_size
    try:
        xlab.jit(lambda x: lax.exp(x), name="old_one")(X)
        os.utime(stored(folder)[0], (1, 1))
        config.update("compilation_cache_max_size", stored(folder)[0].stat().st_size + 100)
        xlab.jit(lambda x: lax.exp(x), name="new_one")(X)
        assert [p.name.split("-")[0] for p in stored(folder)] == ["new_one"]
    finally:
        config.update("compilation_cache_max_size", before)


def test_another_process_finds_it(folder):
    program = (
        "import numpy as np, xlab\n"
        "xlab.jit(lambda x: xlab.lax.sin(x), name='between')(np.ones(3, np.float32))\n"
        "print([e.cache for e in xlab.observe.ledger().entries if e.function == 'between'][-1])\n"
    )
    environment = dict(
        os.environ,
        XLAB_COMPILATION_CACHE_DIR=str(folder),
        XLAB_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for _ in range(2)
    ]
    assert said == ["disk miss", "disk hit"]


def test_off_it_says_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xlab.jit(lambda x: lax.sin(x), name="no_disk")(X)
    assert last("no_disk").cache == "" and last("no_disk").disk == ""


def test_a_miss_is_explained_with_its_key(folder, caplog):
    def explained_on_disk(x):
        return lax.tan(x)

    with xlab.explain_cache_misses(), caplog.at_level("WARNING", "xlab"):
        xlab.jit(explained_on_disk)(X)
        key = stored(folder)[0].name.removesuffix("-cache")
        said = f"cache miss for 'explained_on_disk' with key {key!r}: "
        assert f"{said}no program called `explained_on_disk` is in the disk cache" in caplog.text
        xlab.jit(explained_on_disk)(X[:4])
        assert (
            "cache miss for 'explained_on_disk' with key" in caplog.messages[-1]
            and "argument types went from 8xf32 to 4xf32" in caplog.messages[-1]
        )
        xlab.clear_caches()
        caplog.clear()
        xlab.jit(explained_on_disk)(X)
        assert "with key" not in caplog.text
    caplog.clear()
    with caplog.at_level("WARNING", "xlab"):
        xlab.jit(explained_on_disk)(X[:2])
    assert not caplog.messages


def test_it_is_monitored(folder, caplog):
    heard: list = []
    monitoring.register_event_listener(
        lambda event: heard.append((event.removeprefix("/jax/compilation_cache/"), None))
    )
    monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: (
            heard.append((event.removeprefix("/jax/compilation_cache/"), seconds))
            if "_cache/" in event
            else None
        )
    )

    def run(f=xlab.jit(lambda x: lax.sinh(x), name="monitored_on_disk")):
        xlab.clear_caches()
        heard.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f(X)
        return [name for name, _ in heard if name != "tasks_using_cache"]

    try:
        assert run() == ["compile_requests_use_cache", "cache_misses"]
        with caplog.at_level("DEBUG", "xlab"):
            assert run() == [
                "compile_requests_use_cache",
                "cache_hits",
                "compile_time_saved_sec",
                "cache_retrieval_time_sec",
            ]
        assert (
            f"hit for 'monitored_on_disk' with key '{stored(folder)[0].name.removesuffix('-cache')}'"
            in caplog.text
        )
        took = dict(heard)
        assert (
            0 < took["cache_retrieval_time_sec"] < 10 and abs(took["compile_time_saved_sec"]) < 100
        )
        stored(folder)[0].write_bytes(b"junk")
        assert run() == ["compile_requests_use_cache", "cache_misses"]
        config.update("persistent_cache_min_compile_time_secs", 1000.0)
        assert run(xlab.jit(lambda x: lax.cosh(x), name="quick_and_monitored")) == [
            "compile_requests_use_cache"
        ]
        config.update("compilation_cache_dir", None)
        assert run() == ["compile_requests_use_cache"]
        config.update("enable_compilation_cache", False)
        assert run() == ["task_disabled_cache"]
        config.update("enable_compilation_cache", True)
        run()
        assert heard[0][0] == "tasks_using_cache"
    finally:
        config.update("enable_compilation_cache", True)
        monitoring.clear_event_listeners()


HOSTILE = {
    "no JSON": b"xlab compiled program 2\n{",
    "a list": b"xlab compiled program 2\n[]\n",
    "nothing in it": b"xlab compiled program 2\n{}\n",
    "a number for parts": b'xlab compiled program 2\n{"parts": 3, "seconds": 1, "bytes": 1, "digest": ""}\n',
    "numbers as parts": b'xlab compiled program 2\n{"parts": {"program": 3}, "seconds": 1, "bytes": 1, "digest": ""}\n',
    "deep": b"xlab compiled program 2\n" + b"[" * 100_000 + b"\n",
    "endless": b"xlab compiled program 2\n" + b" " * 3_000_000,
    "a former version": b'xlab compiled program 1\n{"parts": {}}\nx',
    "pickle": b"\x80\x04cos\nsystem\n(S'exit 1'\ntR.",
    "empty": b"",
}


def test_odd_files_beside_an_entry_are_passed_over(folder):
    folder.mkdir()
    for i, (_, data) in enumerate(HOSTILE.items()):
        (folder / f"beside_others-{i:02}-cache").write_bytes(data)
    (folder / "beside_others-zz-cache").symlink_to(folder / "nowhere")
    (folder / "beside_others-dir-cache").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(xlab.jit(lambda x: x + 3, name="beside_others")(X), X + 3)


@pytest.mark.parametrize(
    "what", [*HOSTILE, "of another program", "more bytes than it says", "fewer", "a directory"]
)
def test_an_odd_entry_is_a_warning_and_a_compile(folder, what):
    import json
    import zlib
    from hashlib import sha256

    xlab.jit(lambda x: x + 4, name="odd_entry")(X)
    path = stored(folder)[0]
    magic, head, packed = path.read_bytes().split(b"\n", 2)
    said = json.loads(head)
    if what == "of another program":
        said["parts"]["program"] = "another"
    elif what in ("more bytes than it says", "fewer"):
        said["bytes"] += 5 if what == "fewer" else -5
    elif what == "a directory":
        path.unlink()
        path.mkdir()
    assert said["digest"] == sha256(packed).hexdigest() and zlib.decompress(packed)
    if what != "a directory":
        path.write_bytes(
            HOSTILE.get(what)
            or (
                magic + b"\n" + json.dumps(said).encode() + b"\n" + packed
                if what not in HOSTILE
                else b""
            )
        )
    xlab.clear_caches()
    with pytest.warns(UserWarning, match="odd_entry"):
        np.testing.assert_array_equal(xlab.jit(lambda x: x + 4, name="odd_entry")(X), X + 4)


def test_every_change_of_an_entry_is_seen(folder):
    """Native code ends the process over damaged bytes, so none may get there: cut anywhere, any byte changed."""
    from xlab.compile import disk_cache

    xlab.jit(lambda x: x + 5, name="damaged")(X)
    path = stored(folder)[0]
    data, draw = path.read_bytes(), np.random.default_rng(0)
    with open(path, "rb") as file:
        parts = disk_cache._head(file)["parts"]
    for at in draw.integers(0, len(data), int(os.environ.get("XLAB_FUZZ_FILES", "60"))):
        for changed in (
            data[:at],
            data[:at] + bytes([data[at] ^ (1 << int(draw.integers(8)))]) + data[at + 1 :],
        ):
            path.write_bytes(changed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = disk_cache._read(path, "damaged", xlab.devices()[:1], parts)
            assert (
                found is None or changed[data.index(b"\n", 30) :] == data[data.index(b"\n", 30) :]
            )


def test_another_processor_has_another_key(folder, monkeypatch):
    from xlab.backend import client

    xlab.jit(lambda x: x + 6, name="elsewhere")(X)
    monkeypatch.setattr(client, "processor", lambda device: "another machine")
    xlab.clear_caches()
    xlab.jit(lambda x: x + 6, name="elsewhere")(X)
    assert len(stored(folder)) == 2 and "processor went from" in last("elsewhere").reason + str(
        last("elsewhere")
    )
