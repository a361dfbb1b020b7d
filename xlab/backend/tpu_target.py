"""Compiles a program for a TPU that is not attached, in a process of its own.

The plugin (`libtpu`) must not be loaded into the user's process: it starts threads and never releases its lock.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

INSTALL = "pip install 'xlab[tpu]'"


def library() -> Path | None:
    """Where `libtpu` is, None if it is not installed."""
    found = importlib.util.find_spec("libtpu")
    path = (
        Path(next(iter(found.submodule_search_locations or ()), "")) / "libtpu.so"
        if found
        else None
    )
    return path if path is not None and path.exists() else None


def compile_for(
    topology: str,
    text: str,
    partitions: int,
    propagate_outputs: list[bool],
    *,
    timeout: float = 600,
) -> dict[str, Any]:
    """Compiles a module for a TPU; returns `hlo`, `memory`, `cost`, `devices`, `coordinates`.

    Raises:
        ModuleNotFoundError: without libtpu; the message has the command that installs it.
        ValueError: the topology does not exist, or has not as many devices as the program.
        RuntimeError: the compiler refused the program.
    """
    return _asked(
        {
            "topology": topology,
            "text": text,
            "partitions": partitions,
            "propagate": propagate_outputs,
        },
        timeout,
    )


def _asked(request: dict[str, Any], timeout: float) -> dict[str, Any]:
    path = library()
    if path is None:
        raise ModuleNotFoundError(
            f"compiling for tpu:{request['topology']} needs the TPU compiler: {INSTALL}"
        )
    request = {**request, "library": str(path)}
    root = str(Path(__file__).resolve().parents[2])
    env = {
        **os.environ,
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_LOG_DIR": "disabled",
        "TPU_ACCELERATOR_TYPE": "none",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONPATH": os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    ran = subprocess.run(
        [sys.executable, "-m", "xlab.backend.tpu_target"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        env=env,
        timeout=timeout,
        check=False,
    )
    answer = ran.stdout.rsplit("\n@answer ", 1)
    if len(answer) < 2:
        last = ran.stderr.strip().splitlines()[-1:] or ["it wrote nothing"]
        raise RuntimeError(f"the TPU compiler ended with status {ran.returncode}: {last[0]}")
    made = json.loads(answer[1])
    if "error" in made:
        raise (ValueError if made["kind"] == "topology" else RuntimeError)(made["error"])
    return made


def topology_devices(topology: str, *, timeout: float = 120) -> dict[str, Any]:
    """The devices of a topology: `devices` (ids in order), `coordinates`, `hosts`, `kind`.

    Raises:
        ModuleNotFoundError, ValueError: as for `compile_for`.
    """
    return _asked({"topology": topology}, timeout)


def _main() -> None:
    request = json.load(sys.stdin)
    try:
        made = _compile(request)
    except Exception as error:
        made = {"error": f"{type(error).__name__}: {str(error)[:2000]}", "kind": "compile"}
    sys.stdout.write("\n@answer " + json.dumps(made))
    sys.stdout.flush()
    os._exit(0)  # the plugin's threads would keep the process


def _compile(request: dict[str, Any]) -> dict[str, Any]:
    from xlab.backend import compiling, ir
    from xlab.backend.native import _jax

    _jax.load_pjrt_plugin("tpu", request["library"], None)
    _jax.initialize_pjrt_plugin("tpu")
    name, partitions = request["topology"], request.get("partitions", 0)
    try:
        devices = _jax.get_default_c_api_topology("tpu", name, {})._make_compile_only_devices()
    except Exception as error:
        return {"error": f"there is no TPU topology {name!r}: {error}", "kind": "topology"}
    if not partitions:
        return {
            "devices": [int(d.id) for d in devices],
            "coordinates": [list(map(int, d.coords)) for d in devices],
            "hosts": [int(d.process_index) for d in devices],
            "kind": str(devices[0].device_kind),
        }
    if partitions > 1 and partitions != len(devices):
        return {
            "error": f"tpu:{name} has {len(devices)} devices and the program is for {partitions}: choose a mesh or a topology "
            "with as many",
            "kind": "topology",
        }
    devices = devices[:partitions]
    module = ir.parse(request["text"])
    options = compiling.compile_options(
        devices,
        partitions,
        propagate_outputs=request["propagate"],
        arguments=ir.argument_count(module),
    )
    exe = devices[0].client.compile(module, _jax.DeviceList(tuple(devices)), options)
    stats = exe.get_compiled_memory_stats()
    cost = exe.cost_analysis()
    cost = cost[0] if isinstance(cost, list) else cost
    return {
        "hlo": "\n\n".join(module.to_string() for module in exe.hlo_modules()),
        "memory": {
            key: getattr(stats, key)
            for key in (
                "argument_size_in_bytes",
                "output_size_in_bytes",
                "alias_size_in_bytes",
                "temp_size_in_bytes",
                "peak_memory_in_bytes",
                "generated_code_size_in_bytes",
            )
        },
        "cost": {
            k: float(v)
            for k, v in cost.items()
            if k in ("flops", "bytes accessed", "optimal_seconds")
        },
        "devices": [int(d.id) for d in devices],
        "kind": str(devices[0].device_kind),
    }


if __name__ == "__main__":
    _main()
