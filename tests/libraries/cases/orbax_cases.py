"""Cases of orbax's own tests: its source distribution ships test classes that are to be derived from, and benchmarks that check what they restore, and leaves out the files that run them."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import orbax.checkpoint as ocp
import pytest
from orbax.checkpoint._src.checkpointers import checkpointer_test_utils
from orbax.checkpoint._src.serialization import type_handler_registry
from orbax.checkpoint.experimental.v1._src.testing.compatibility import (
    manager_compatibility_test_base,
)
from orbax.checkpoint.experimental.v1._src.training import checkpointer_test_base

if find_spec("clu") is None:
    # Reports of a suite of benchmarks go to TensorBoard by it, and nothing here reports; it brings TensorFlow.
    for name in ("clu", "clu.metric_writers"):
        sys.modules[name] = ModuleType(name)
    sys.modules["clu"].metric_writers = sys.modules["clu.metric_writers"]
from orbax.checkpoint._src.testing.benchmarks.core import configs

BENCHMARKS = "orbax.checkpoint._src.testing.benchmarks."
BOTH = [True, False]


class CheckpointerTest(checkpointer_test_utils.CheckpointerTestBase.Test):
    def checkpointer(self, handler, **kwargs):
        return ocp.Checkpointer(handler, **kwargs)


class AsyncCheckpointerTest(checkpointer_test_utils.CheckpointerTestBase.Test):
    def checkpointer(self, handler, **kwargs):
        return ocp.AsyncCheckpointer(handler, **kwargs)


class V1CheckpointerTest(checkpointer_test_base.CheckpointerTestBase.Test):
    pass


class V1DeprecationsTest(checkpointer_test_base.CheckpointerTestBase.DeprecationsTest):
    pass


class V1ManagerCompatibilityTest(manager_compatibility_test_base.ManagerCompatibilityTestBase):
    """Checkpoints that lie in the distribution, written under JAX."""


# Arrays of the benchmarks' trees: every rank and way of sharding, and types that files have to name.
SPEC = {
    "array": {"dtype": "float32", "shape": [16, 32], "sharding": ["data", "model"]},
    "rows": {"dtype": "bfloat16", "shape": [8, 6], "sharding": ["data", None]},
    "columns": {"dtype": "int32", "shape": [3, 8], "sharding": [None, "model"]},
    "whole": {"dtype": "float32", "shape": [4, 4, 4], "sharding": [None, None, None]},
    "vector": {"dtype": "float16", "shape": [8], "sharding": [["data", "model"]]},
}
# Whole on each half of the mesh, for what restores one replica and broadcasts it.
REPLICATED = {
    "array": {"dtype": "float32", "shape": [16, 32], "sharding": [None, "model"]},
    "rows": {"dtype": "bfloat16", "shape": [8, 6], "sharding": ["model", None]},
    "whole": {"dtype": "int32", "shape": [4, 4, 4], "sharding": [None, None, None]},
}
WITH_STEP = {**SPEC, "step": "int"}
POLICIES = {
    "num_checkpoints": 12,
    "checkpoint_policies_options": [
        {
            "preservation_policies": [
                {"policy_type": "LatestN", "n": 2},
                {"policy_type": "CustomSteps", "custom_steps": [2]},
            ],
            "save_decision_policies": [{"policy_type": "FixedIntervalPolicy", "interval_steps": 2}],
            "expected_preserve_checkpoints": [2, 8, 10],
        }
    ],
}
# (module, generator, options to take every product of, spec): those that need no cluster.
TABLE = (
    ("array_handler_benchmark", "ArrayHandlerBenchmark", {"use_ocdbt": BOTH, "use_zarr3": BOTH, "use_replica_parallel": BOTH, "enable_replica_parallel_separate_folder": BOTH, "use_metadata_store": BOTH}, SPEC),
    ("array_handler_benchmark", "ArrayHandlerBenchmark", {"use_colocated_python": True, "use_replica_parallel": BOTH}, SPEC),
    *(("array_handler_benchmark", "ArrayHandlerBenchmark", {"use_ocdbt": BOTH, "use_zarr3": BOTH}, {"array": SPEC[name]}) for name in ("rows", "columns", "whole", "vector")),
    ("pytree_checkpoint_benchmark", "PyTreeCheckpointBenchmark", {"async_enabled": BOTH, "use_ocdbt": BOTH, "use_zarr3": BOTH, "use_compression": BOTH, "use_replica_parallel": BOTH}, WITH_STEP),
    ("pytree_checkpoint_benchmark", "PyTreeCheckpointBenchmark", {"save_concurrent_gb": 1, "restore_concurrent_gb": 1, "save_device_host_concurrent_gb": 1}, WITH_STEP),
    ("checkpoint_manager_benchmark", "CheckpointManagerBenchmark", {"train_steps": 4, "max_to_keep": [1, 2], "save_interval_steps": [1, 3]}, SPEC),
    ("checkpoint_manager_perf_benchmark", "CheckpointManagerPerfBenchmark", {"train_steps": 3, "use_zarr3": BOTH}, SPEC),
    ("checkpoint_policy_benchmark", "CheckpointPolicyBenchmark", POLICIES, SPEC),
    ("single_replica_benchmark", "SingleReplicaBenchmark", {"use_replica_parallel": BOTH, "broadcast_memory_limit_bytes": [None, 4096], "use_distributed_process_id": BOTH}, REPLICATED),
    ("multislice_broadcast_benchmark", "MultisliceBroadcastBenchmark", {}, REPLICATED),
    ("multihost_dispatchers_benchmark", "MultihostDispatchersBenchmark", {"use_colocated": True, "device_count": [None, 4]}, SPEC),
    ("v1.benchmark", "Benchmark", {"async_enabled": BOTH, "use_ocdbt": BOTH, "use_zarr3": BOTH, "use_replica_parallel": BOTH}, WITH_STEP),
    ("v1.benchmark", "Benchmark", {"use_load_and_broadcast": True, "use_ocdbt": BOTH, "use_zarr3": BOTH, "use_replica_parallel": BOTH}, REPLICATED),
    ("v1.benchmark", "Benchmark", {"chunk_byte_size": [64, None], "use_compression": BOTH, "enable_trace": BOTH}, WITH_STEP),
)  # fmt: skip
MESH = configs.MeshConfig(["data", "model"], {"data": 2, "model": 4}, None)


def generated(module, name, options, spec, folder=None):
    """The benchmarks of a row of the table."""
    generator = getattr(import_module(BENCHMARKS + module), name)
    made = getattr(generator.options_class, "from_dict", lambda given: generator.options_class(**given))  # fmt: skip
    config = configs.CheckpointConfig(spec=spec)
    return generator([config], made(options), folder, [MESH]).generate()


def told(row, options):
    """The options that a row gives, with their values, as the name of a test."""
    given = [f"{name}={getattr(options, name)}" for name in row[2] if name != "checkpoint_policies_options"]  # fmt: skip
    one = [spec["dtype"] for spec in row[3].values() if len(row[3]) == 1]
    return "-".join([row[1], *one, *given])


@pytest.fixture
def _handlers(monkeypatch):
    """Benchmarks register handlers of arrays for the whole process."""
    registry = type_handler_registry.GLOBAL_TYPE_HANDLER_REGISTRY
    for table in ("_type_registry", "_typestr_registry"):
        monkeypatch.setattr(registry, table, getattr(registry, table).copy())


@pytest.mark.usefixtures("_handlers")
@pytest.mark.parametrize(
    ("row", "index"),
    [
        pytest.param(row, i, id=told(row, b.options))
        for row in TABLE
        for i, b in enumerate(generated(*row))
    ],
)
def test_benchmark(row, index, request):
    # In a folder that the other processes of the run use too.
    folder = Path(os.environ["TEST_TMPDIR"]) / re.sub(r"\W+", "-", request.node.name)
    result = generated(*row, str(folder))[index].run()
    if result.error is not None:
        raise result.error
