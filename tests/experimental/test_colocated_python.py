"""`experimental.colocated_python`: functions and objects on the host of their arguments' devices, and the rules of what they take."""

import gc

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.parallel.workers import run_two
from xlab.experimental.colocated_python import (
    colocated_cpu_devices,
    colocated_python,
    colocated_python_class,
)
from xlab.sharding import NamedSharding
from xlab.sharding import PartitionSpec as P


def test_functions_get_arrays_as_they_lie():
    mesh = xlab.make_mesh((8,), ("i",))
    x = xlab.device_put(np.arange(8.0, dtype=np.float32), NamedSharding(mesh, P("i")))
    seen = []

    @colocated_python
    def f(x, *, more):
        """Doubles."""
        seen.append([float(s.data[0]) for s in x.addressable_shards])
        return {"twice": 2 * x, "rest": (more, None)}

    out = f(x, more=jnp.arange(2))
    assert seen == [[float(i) for i in range(8)]]
    assert (
        out["twice"].sharding == x.sharding and out["twice"].tolist() == (2 * np.arange(8)).tolist()
    )
    assert out["rest"][0].tolist() == [0, 1] and f.__doc__ == "Doubles."


def test_without_arguments_devices_have_to_be_said():
    make = colocated_python(lambda: jnp.ones(2))
    with pytest.raises(ValueError, match=r"No devices found.*specialize\(devices="):
        make()
    there = make.specialize(devices=xlab.devices()[3:5])
    assert there().devices() == {xlab.devices()[3]}
    assert colocated_python(lambda: None).specialize(devices=xlab.devices()[:1])() is None


def test_calls_are_held_to_what_was_specified():
    S, x = xlab.ShapeDtypeStruct, jnp.arange(3.0)
    f = colocated_python(lambda x: x + 1)
    one = f.specialize(in_specs=((S((3,), np.float32),), {}))
    assert one(x).tolist() == [1, 2, 3]
    with pytest.raises(
        ValueError,
        match=r"specialized for arguments like .*shape=\(3,\).*got one like .*shape=\(2,\)",
    ):
        one(x[:2])
    with pytest.raises(ValueError, match="for arguments of the structure"):
        one(x, x)
    with pytest.raises(ValueError, match="in_specs of .* have been said already"):
        one.specialize(in_specs=((), {}))
    typed = one.specialize(out_specs_fn=lambda s: S(s.shape, s.dtype, sharding=s.sharding))
    assert typed(x).tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="for results like"):
        f.specialize(out_specs_fn=lambda s: S((1,), s.dtype))(x)


def test_only_arrays_go_in_and_out():
    f = colocated_python(lambda x: x)
    for wrong in (1.0, np.ones(2), "text"):
        with pytest.raises(
            ValueError, match="only supports arrays as input and output.*among the arguments"
        ):
            f(wrong)
    with pytest.raises(ValueError, match="among the results"):
        colocated_python(lambda x: np.ones(2))(jnp.ones(1))
    with pytest.raises(TypeError, match="is called with a traced value of type f32.*pure_callback"):
        xlab.jit(f)(jnp.ones(1))
    with pytest.raises(ZeroDivisionError):
        colocated_python(lambda x: 1 / 0)(jnp.ones(1))
    assert colocated_python(xlab.random.split)(xlab.random.key(0)).shape == (2,)


def test_objects_are_made_at_the_first_call_and_go_with_their_wrapper():
    log = []

    @colocated_python_class
    class Counter:
        """Counts."""

        def __init__(self, start, step=1):
            log.append("made")
            self.count, self.step = start, step

        def add(self, x):
            self.count += self.step
            return x + self.count

        def __call__(self):
            return jnp.asarray(self.count)

        def __del__(self):
            log.append("gone")

    assert Counter.__doc__ == "Counts." and Counter.__name__ == "Counter"
    first, second = Counter(0), Counter(10, step=5)
    assert log == []
    x = jnp.zeros(2)
    assert [first.add(x)[0], first.add(x)[0], second.add(x)[0]] == [1, 2, 15]
    assert first.__call__.specialize(devices=xlab.devices()[:1])() == 2
    with pytest.raises(AttributeError, match="count"):
        _ = first.count
    del first
    gc.collect()
    assert log == ["made", "made", "gone"]
    with pytest.raises(TypeError, match="takes a class, got 3"):
        colocated_python_class(3)


def test_cpu_devices_beside_devices():
    assert colocated_cpu_devices(tuple(xlab.devices())) == xlab.devices()
    mesh = xlab.make_mesh((4, 2), ("x", "y"))
    assert colocated_cpu_devices(mesh) == mesh


@pytest.mark.slow
def test_each_process_runs_on_its_own_devices():
    """With arguments that span processes: what the function makes lies on a device of the process that it runs in."""
    run_two(
        """
        import sys
        import numpy as np
        import xlab
        import xlab.numpy as jnp
        from xlab.experimental.colocated_python import colocated_python
        from xlab.sharding import NamedSharding, P

        xlab.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]), initialization_timeout=60)
        mine, theirs = xlab.local_devices(), xlab.local_devices(1 - int(sys.argv[2]))
        rows = NamedSharding(xlab.make_mesh((4,), ("x",)), P("x"))
        whole = np.arange(8.0, dtype=np.float32)
        x = xlab.make_array_from_callback((8,), rows, lambda at: whole[at])

        @colocated_python
        def doubled(x):
            made = jnp.arange(8.0) * 2
            assert made.devices() == {mine[0]}, made.devices()
            return xlab.make_array_from_callback(x.shape, x.sharding, lambda at: made[at])

        for s in doubled(x).addressable_shards:
            assert np.asarray(s.data).tolist() == (whole[s.index] * 2).tolist()
        make = colocated_python(lambda: jnp.zeros(2))
        for devices, first in ((xlab.devices(), mine[0]), (mine[1:] + theirs, mine[1]), (theirs, mine[0])):
            assert make.specialize(devices=devices)().devices() == {first}
        with xlab.default_device(mine[1]):
            assert make.specialize(devices=theirs)().devices() == {mine[1]}
        print("done")
        """
    )
