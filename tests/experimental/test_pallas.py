"""The field's names for kernels: all there, meaning what the reference means; the value interpreter gives what compiled programs give."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.experimental import samples_pallas, samples_pallas_spellings
from tests.reference.sample import namespaces
from xlab import kernels
from xlab.experimental import pallas as pl
from xlab.experimental.pallas import tpu as pltpu

# What a program for the reference's interpretation may name.
NAMES = [
    "ANY",
    "BlockDim",
    "BlockSpec",
    "Blocked",
    "BoundedSlice",
    "Buffered",
    "CompilerParams",
    "CostEstimate",
    "DeviceIdType",
    "Element",
    "GridSpec",
    "HOST",
    "Indirect",
    "MemoryRef",
    "MemorySpace",
    "RevisitMode",
    "Slice",
    "Squeezed",
    "align_to",
    "broadcast_to",
    "cdiv",
    "core_map",
    "debug_check",
    "debug_print",
    "delay",
    "ds",
    "dslice",
    "empty",
    "empty_like",
    "empty_ref_like",
    "enable_debug_checks",
    "enable_poison_buffers",
    "estimate_cost",
    "get_global",
    "kernel",
    "loop",
    "lower_as_mlir",
    "multiple_of",
    "next_power_of_2",
    "no_block_spec",
    "num_programs",
    "pallas_call",
    "pallas_call_p",
    "pallas_export_experimental",
    "program_id",
    "reciprocal",
    "run_scoped",
    "run_state",
    "select_ref",
    "semaphore",
    "semaphore_read",
    "semaphore_signal",
    "semaphore_wait",
    "squeezed",
    "strides_from_shape",
    "when",
    "with_scoped",
]
F4 = xlab.ShapeDtypeStruct((4,), "float32")
X = np.arange(4, dtype=np.float32)
XLAB = namespaces("xlab")


def test_every_name_is_there():
    missing = [name for name in NAMES if not hasattr(pl, name)]
    assert not missing
    assert all(hasattr(pltpu, name) for name in pltpu.__all__)
    assert pl.tpu is pltpu and xlab.experimental.pallas is pl
    with pytest.raises(AttributeError, match="no attribute 'triton'"):
        _ = pl.triton


def test_names_are_those_of_the_room():
    assert pl.pallas_call is kernels.kernel_call and pl.BlockSpec is kernels.BlockSpec
    assert pltpu.VMEM is kernels.MemorySpace.LOCAL and pltpu.HBM is pl.ANY
    assert (
        pltpu.PARALLEL == "parallel"
        and pltpu.GridDimensionSemantics("arbitrary") is pltpu.ARBITRARY
    )
    assert (
        pl.BlockSpec(
            (4,), lambda i: (i,), pl.Buffered(2), memory_space=pltpu.SMEM
        ).pipeline_mode.buffer_count
        == 2
    )
    params = pltpu.CompilerParams(
        dimension_semantics=["parallel", pltpu.ARBITRARY], flags={"b": 1, "a": 2}
    )
    assert isinstance(params, pl.CompilerParams)
    assert hash(params) == hash(
        pltpu.CompilerParams(("parallel", "arbitrary"), flags={"a": 2, "b": 1})
    )


def test_k46_without_interpretation_a_cpu_runs_no_kernel():
    call = pl.pallas_call(lambda x, o: o.__setitem__(..., x[...]), out_shape=F4)
    with pytest.raises(ValueError, match="[Oo]nly interpret mode is supported on CPU"):
        call(X)
    with pltpu.force_tpu_interpret_mode():
        assert call(X).tolist() == X.tolist()


def test_compiler_params_reach_the_call():
    params = pltpu.CompilerParams(dimension_semantics=(pltpu.PARALLEL,), vmem_limit_bytes=100)
    call = pl.pallas_call(
        lambda o: o.__setitem__(..., jnp.ones(4)),
        out_shape=F4,
        grid=(1,),
        interpret=True,
        compiler_params=params,
    )
    (eqn,) = xlab.make_jaxpr(call)().eqns
    assert eqn.params["compiler_params"] == params and call().tolist() == [1] * 4


class TestEmulated:
    def test_semaphores_of_devices(self):
        def kernel(o, sem):
            pl.semaphore_signal(sem, 2, device_id=1, device_id_type=pl.DeviceIdType.LOGICAL)

        with pytest.raises(
            NotImplementedError, match=r"another device is signaled \(device_id=1\)"
        ):
            pl.pallas_call(
                kernel, out_shape=F4, scratch_shapes=[pltpu.SemaphoreType.REGULAR], interpret=True
            )()

    def test_delay(self):
        def kernel(o):
            pl.delay(100)
            o[...] = jnp.ones(4)

        assert pl.pallas_call(kernel, out_shape=F4, interpret=True)().tolist() == [1] * 4
        with pytest.raises(TypeError, match="integer number of nanoseconds"):
            pl.delay(1.5)

    def test_empty(self):
        assert pl.empty((2,), jnp.float32).shape == (2,) and pl.empty_like(X).dtype == X.dtype
        refs = pl.empty_ref_like({"a": pltpu.VMEM((3,), jnp.int32), "b": X})
        assert refs["a"][...].tolist() == [-(2**31)] * 3 and np.isnan(refs["b"][...]).all()
        assert refs["a"].aval.memory_space is pltpu.VMEM

    def test_poison(self):
        with pl.enable_poison_buffers(True):
            assert np.isnan(pl.pallas_call(lambda o: None, out_shape=F4, interpret=True)()).all()
        with pytest.warns(UserWarning, match="always holds NaN"), pl.enable_poison_buffers(False):
            pass

    def test_what_interpretation_does_not_have(self):
        with pytest.raises(NotImplementedError, match="no memory that outlives a call"):
            pl.pallas_call(
                lambda o: pl.get_global(pltpu.VMEM((1,), jnp.int32)) and None,
                out_shape=F4,
                interpret=True,
            )()
        with (
            pytest.raises(NotImplementedError, match="shapes of kernels are static"),
            pl.pallas_export_experimental(True),
        ):
            pass
        with pl.pallas_export_experimental(False):
            pass

    def test_lower_as_mlir(self):
        call = pl.pallas_call(
            lambda x, o: o.__setitem__(..., jnp.sin(x[...])), out_shape=F4, interpret=True
        )
        assert "stablehlo.sine" in pl.lower_as_mlir(call, X, platforms=("cpu",))
        for wrong in ({"dynamic_shapes": True}, {"platforms": ("tpu",)}):
            with pytest.raises(NotImplementedError, match="lower_as_mlir"):
                pl.lower_as_mlir(call, X, **wrong)

    def test_masks_of_the_older_form(self):
        def kernel(x, o):
            mask = jnp.arange(4) < 2
            pl.store(o, (slice(None),), pl.load(x, (slice(None),), mask=mask, other=-1.0))

        assert pl.pallas_call(kernel, out_shape=F4, interpret=True)(X).tolist() == [0, 1, -1, -1]


class TestCores:
    MESH = pltpu.create_tensorcore_mesh("core", num_cores=2)

    def test_a_kernel_on_a_mesh(self):
        @pl.kernel(out_type=F4, mesh=self.MESH, interpret=True)
        def f(x, o):
            i = xlab.lax.axis_index("core")
            o[pl.ds(2 * i, 2)] = x[pl.ds(2 * i, 2)] * (i + 1)

            @pltpu.run_on_first_core("core")
            def _():
                o[0] = 7.0

        assert f(X).tolist() == [7, 1, 4, 6]

    def test_core_map_changes_references(self):
        def body(refs):
            x, o = refs

            @pl.core_map(self.MESH, interpret=True)
            def _():
                i = xlab.lax.axis_index("core")
                o[pl.ds(2 * i, 2)] = x[pl.ds(2 * i, 2)] * 3

        for run in (pl.run_state(body), xlab.jit(pl.run_state(body))):
            assert run((X, np.zeros_like(X)))[1].tolist() == [0, 3, 6, 9]

    def test_pipelines_of_cores(self):
        def kernel(x, o):
            core = xlab.lax.axis_index("core")

            def double(x, o):
                o[...] = x[...] * 2

            block = pl.BlockSpec((1,), lambda i: (core * 2 + i,))
            pltpu.emit_pipeline(double, grid=(2,), in_specs=[block], out_specs=[block])(x, o)

        assert pl.kernel(kernel, F4, mesh=self.MESH, interpret=True)(X).tolist() == [0, 2, 4, 6]
        with pytest.raises(NotImplementedError, match="does not divide a grid among cores"):
            pltpu.emit_pipeline(kernel, grid=(2,), core_axis_name="core")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: pltpu.roll(jnp.ones((2, 3)), 1, 2), "axis is out of range: 2"),
        (lambda: pltpu.roll(jnp.ones((2, 3)), 1, 0, stride=1), "both specified"),
        (lambda: pltpu.roll(jnp.ones((2, 3)), 1, 0, stride=-1, stride_axis=1), "stride must be non-negative"),
        (lambda: pltpu.roll(jnp.ones((2, 3)), 1, 0, stride=1, stride_axis=0), "stride_axis is out of range"),
        (lambda: pltpu.bitcast(jnp.ones(4), "int16"), "takes two dimensions"),
        (lambda: pltpu.bitcast(jnp.ones((3, 2), "int16"), "int32"), "3 rows cannot be divided"),
    ],
)  # fmt: skip
def test_rolls_and_bits_refuse(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()


# -- more than the reference does ------------------------------------------------------------------------------------

# Its kernels with scratch memory, with positions in the grid or with references of run_state have no such derivatives or batches.
PLAIN = {
    "matmul": lambda x, y: x @ y,
    "column_sums": lambda x: x.sum(axis=0, keepdims=True),
    "squeezed_rows": lambda x: x * jnp.arange(8.0)[:, None],
    "running_sum": jnp.cumsum,
    "scratch_by_name": lambda x: x * 3 + 1,
}


@pytest.mark.parametrize("name", PLAIN)
def test_k47_derivatives_of_kernels_with_scratch_and_positions(name):
    (sample,) = [s for s in samples_pallas.SAMPLES if s.name == name]
    args = tuple(jnp.asarray(a) for a in sample.args)
    tangents = tuple(jnp.cos(a) for a in args)
    got = xlab.jvp(lambda *a: sample.fun(XLAB, *a), args, tangents)
    for a, b in zip(got, xlab.jvp(PLAIN[name], args, tangents)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_k12_complex_numbers_in_kernels():
    x = np.array([1 + 2j, 3 - 1j], np.complex64)
    out = xlab.ShapeDtypeStruct((2,), "complex64")
    call = pl.pallas_call(lambda x, o: o.__setitem__(0, x[0] * 2), out_shape=out, interpret=True)
    got = np.asarray(call(x))
    assert got[0] == 2 + 4j and np.isnan(got[1].real) and np.isnan(got[1].imag)


def test_k19_run_state_maps_over_examples():
    xs = np.stack([samples_pallas.X, samples_pallas.X * 2])
    got = xlab.vmap(lambda x: samples_pallas.state(XLAB, x))(xs)
    for k in range(2):
        for a, b in zip(got, samples_pallas.state(XLAB, jnp.asarray(xs[k])), strict=True):
            assert a[k].tolist() == b.tolist()


# -- the value interpreter ------------------------------------------------------------------------------------------

IN_EACH_RUN = [
    "blocks_padded",
    "buffered",
    "column_sums",
    "copies",
    "counter",
    "double_buffered",
    "dynamic_grid",
    "element_windows_padded",
    "gathered",
    "helpers",
    "histogram",
    "loop_with_carry",
    "masked_read_6",
    "matmul",
    "outside",
    "outside_write_5",
    "prefetched_order",
    "scattered_blocks",
    "scoped",
    "semaphores",
    "squeezed_rows",
    "views",
    "whiles",
    "with_scoped",
    "written_input",
]
COMPARED = [
    s
    for s in (*samples_pallas.SAMPLES, *samples_pallas_spellings.SAMPLES)
    if not (s.error or s.x64) and (s.name in IN_EACH_RUN or os.environ.get("XLAB_KERNELS_WHOLE"))
]

AS_COMPILED = pltpu.InterpretParams(out_of_bounds_reads="clamp", dma_execution_mode="eager")


@pytest.mark.parametrize("sample", COMPARED, ids=[s.name for s in COMPARED])
def test_k86_the_value_interpreter_agrees(sample):
    args = [jnp.asarray(a) if isinstance(a, (np.ndarray, np.generic)) else a for a in sample.args]
    with warnings.catch_warnings():
        # Remarks on what a kernel does with its inputs and semaphores.
        warnings.simplefilter("ignore")
        compiled = sample.fun(XLAB, *args)
        with kernels.interpret_mode(AS_COMPILED):
            value = sample.fun(XLAB, *args)
    for a, b in zip(xlab.tree.leaves(compiled), xlab.tree.leaves(value), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype
        if a.dtype.kind in "biu":
            np.testing.assert_array_equal(a, b)
        else:
            # Fused operations round once where single ones round each.
            np.testing.assert_allclose(
                a.astype(np.float32), b.astype(np.float32), rtol=1e-5, atol=1e-6
            )


def test_what_only_a_tpu_has_is_answered_with_what_to_write():
    with pytest.raises(
        AttributeError, match=r"no attribute 'prng_seed': .* draw with xlab\.random"
    ):
        pltpu.prng_seed
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        pltpu.nothing
    assert not any(hasattr(pltpu, name) for name in pltpu._INSTEAD)
