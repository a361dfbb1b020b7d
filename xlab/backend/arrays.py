"""Device buffers: putting host data on devices, reading it back, assembling arrays from shards.

Nothing here checks that an array fits a program: the dispatcher does, on the slow path. What is checked is what would
otherwise read foreign memory: the dtype of host data.

Arrays are of the native class `ArrayImpl`; `install_methods` gives it its Python methods.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from xlab.backend import calling, class_sharing, watchdog
from xlab.backend import parts as _parts
from xlab.backend.failures import RuntimeFailure, reraise
from xlab.backend.native import _jax
from xlab.backend.shardings import owner_of

ArrayImpl = _jax.ArrayImpl
Array = _jax.Array
ResultHandler = _jax.ResultHandler

_put = _jax.batched_device_put
_ZERO_COPY = _jax.HostBufferSemantics.ZERO_COPY
_COPY_NOW = _jax.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
_REUSE = _jax.ArrayCopySemantics.REUSE_INPUT
_ALWAYS_COPY = _jax.ArrayCopySemantics.ALWAYS_COPY
_DONATE = _jax.ArrayCopySemantics.DONATE_INPUT
_SHARDS = "_xlab_shards"
NATIVE = {
    name: getattr(ArrayImpl, name)
    for name in (
        "block_until_ready",
        "clone",
        "delete",
        "is_ready",
        "on_device_size_in_bytes",
        "unsafe_buffer_pointer",
    )
}
"""What native arrays do before anybody gives them other methods. All but `delete` read buffers, whether they are there or not."""
is_deleted, mark_deleted = ArrayImpl.is_deleted, NATIVE["delete"]


def install_methods(mapping: Mapping[str, Any], is_ours: Callable[[Any], bool]) -> None:
    """Sets methods and properties of arrays; `is_ours(array)` tells our arrays from JAX's."""
    class_sharing.install(ArrayImpl, mapping, is_ours)


def _as_given(aval: Any, sharding: Any) -> Any:
    return aval


_typing: Callable[[Any, Any], Any] = _as_given


def set_typing(typed: Callable[[Any, Any], Any]) -> None:
    """Sets the function that gives the type of an array with a sharding: `typed(aval, sharding) -> aval`."""
    global _typing
    _typing = typed


_made: Callable[[Sequence[Any]], None] | None = None


def watch_made(run: Callable[[Sequence[Any]], None] | None) -> None:
    """Calls `run(arrays)` for arrays that Python makes, until told None; native calls have a hook of their own."""
    global _made
    _made = run


def _notify_made(arrays: list[Any]) -> list[Any]:
    if _made is not None:
        _made(arrays)
    return arrays


def put(shards: Sequence[Any], aval: Any, sharding: Any, devices: Sequence[Any], committed: bool = True,
        copy: bool = False, *, owned: bool = False) -> ArrayImpl:  # fmt: skip
    """An array from one host array per addressable device.

    Later changes to the host arrays never reach the result.

    Args:
        shards: NumPy arrays (or arrays already on the device in question) of the aval's dtype.
        aval: type of the whole array; it becomes the result's `aval`.
        sharding: one of our sharding objects; its `native` form is stored.
        devices: where each shard goes, in the sharding's device order.
        committed: whether the user chose this placement.
        copy: never reuse the buffers of shards that are device arrays.
        owned: the caller gives the host arrays away, so their memory may become the device's.
    """
    aval = _typing(aval, sharding)
    dtype = aval.dtype
    for shard in shards:
        if getattr(shard, "dtype", dtype) != dtype:
            raise TypeError(
                f"A shard of dtype {shard.dtype} cannot become part of an array of dtype {dtype}."
            )
    if len(shards) == 1:
        if copy and type(shards[0]) is ArrayImpl:
            return copy_to_devices(shards[0], aval, sharding, devices, committed, copy=True)
        semantics = _ZERO_COPY if owned else _COPY_NOW
        made = _put(aval, sharding.native, shards, devices, committed, False, semantics, True)
        return made if _made is None else _notify_made([made])[0]
    if not owned:
        shards = _own_copies(shards)
    made = _put(aval, sharding.native, shards, devices, committed, False, _ZERO_COPY, True)
    return made if _made is None else _notify_made([made])[0]


_ALIGNMENT = 64  # bytes; the runtime copies what begins elsewhere
_SMALL = 4096  # bytes that are copied once more in less time than it takes to align them


def empty_for_device(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Host memory without values, of which `put(..., owned=True)` makes a buffer without a copy."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.empty(size + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)


def _own_copies(shards: Sequence[Any]) -> list[Any]:
    # Copying semantics are not available for several devices at once. One copy serves equal shards: buffers that
    # alias host memory are never written by programs.
    made: dict[Any, Any] = {}
    out = []
    for shard in shards:
        if type(shard) is np.ndarray and shard.nbytes <= _SMALL:
            shard = shard.copy()
        elif isinstance(shard, np.ndarray):
            key = shard.__array_interface__["data"][0], shard.shape, shard.strides
            copy = made.get(key)
            if copy is None:
                copy = made[key] = empty_for_device(shard.shape, shard.dtype)
                copy[...] = shard
            shard = copy
        out.append(shard)
    return out


def to_numpy(arr: ArrayImpl) -> np.ndarray:
    """The values of a one-device array, read-only and without a copy where possible; raises what the
    computation that makes it raised."""
    if watchdog.current() is not None:
        _await([arr])
    try:
        return _waiting(_parts.read, arr)
    except RuntimeFailure as e:
        reraise(e)


def parts_to_numpy(arr: ArrayImpl, positions: Iterable[int]) -> list[np.ndarray]:
    """The values of the parts at these positions, in the order of the sharding's addressable devices."""
    # Reading a part without a type waits for all parts, which may never be there while a program is watched.
    pieces = shards(arr) if watchdog.current() is not None else _parts.split(arr)
    return [to_numpy(pieces[i]) for i in positions]


def copy_to_host_async(arr: ArrayImpl) -> None:
    """Starts reading so that a later `to_numpy` waits less."""
    _parts.start_reading(arr)


def _default_shard_aval(aval: Any, shape: tuple[int, ...]) -> Any:
    return aval.update(shape=shape, sharding=None)


_make_single: Callable[[Any, str | None], Any] | None = None
_shard_aval: Callable[[Any, tuple[int, ...]], Any] = _default_shard_aval


def set_shard_makers(single: Callable[[Any, str | None], Any] | None = None,
                     aval: Callable[[Any, tuple[int, ...]], Any] | None = None) -> None:  # fmt: skip
    """Sets the functions that make the sharding and the type of one shard."""
    global _make_single, _shard_aval
    if single is not None:
        _make_single = single
        _parts.set_sharding_of_parts(
            functools.cache(lambda device, *, memory_kind: single(device, memory_kind).native)
        )
    _shard_aval = aval or _shard_aval


def shards(arr: ArrayImpl) -> list[ArrayImpl]:
    """The array's parts in device order, each a one-device array of ours."""
    known = arr.__dict__.get(_SHARDS)
    if known is not None:
        return known
    native = arr._sharding
    native_parts = _parts.split(arr)
    if _make_single is None:
        raise RuntimeError("shards() needs xlab.sharding to be imported first.")
    aval = arr.aval
    if native_parts is None:
        raise RuntimeError(
            f"The array of type {aval.str_short(short_dtypes=True)} was deleted or donated: it has no parts any more."
        )
    shape = owner_of(native).shard_shape(aval.shape)
    shard_aval = _shard_aval(aval, shape)
    # Parts of one array were all given a sharding of ours, or none was.
    if arr._committed and native_parts and owner_of(native_parts[0]._sharding) is not None:
        out = native_parts
        for part in out:
            part.aval = shard_aval
    else:
        devices = native._internal_device_list.addressable_device_list
        out = [
            part._rewrap_with_aval_and_sharding(
                shard_aval, _make_single(device, native.memory_kind).native
            )
            for part, device in zip(native_parts, devices, strict=True)
        ]
    setattr(arr, _SHARDS, out)
    _share(arr, out)
    return out


def known_shards(arr: ArrayImpl) -> Sequence[ArrayImpl]:
    """The cached shards, if `shards` was called before; they share the array's memory."""
    return arr.__dict__.get(_SHARDS, ())


def forget_shards(arr: ArrayImpl) -> None:
    """Drops the cached parts, as when the array is deleted."""
    arr.__dict__.pop(_SHARDS, None)


def from_shards(
    aval: Any, sharding: Any, arrays: Sequence[ArrayImpl], committed: bool = True
) -> ArrayImpl:
    """One array from one-device arrays in the sharding's device order; nothing is copied."""
    made = ArrayImpl(
        _typing(aval, sharding), sharding.native, list(arrays), committed, _skip_checks=True
    )
    _share(made, arrays)
    return made if _made is None else _notify_made([made])[0]


def copy_to_devices(arr: ArrayImpl, aval: Any, sharding: Any, devices: Sequence[Any], committed: bool = True, *,
                    copy: bool = False, donate: bool = False) -> ArrayImpl:  # fmt: skip
    """The same shards on other devices or in another memory, one for one."""
    semantics = _ALWAYS_COPY if copy else _DONATE if donate else _REUSE
    native = sharding.native
    targets = native._internal_device_list
    if targets is None or len(targets) != len(devices):
        targets = _jax.DeviceList(tuple(devices))
    moved = _jax.batched_copy_array_to_devices_with_sharding(
        [arr], [targets], [native], [semantics]
    )[0]
    made = _rewrapped(moved, _typing(aval, sharding), native, committed)
    old = arr._sharding
    if (
        not copy
        and old.memory_kind == native.memory_kind
        and list(old._internal_device_list) == list(targets)
    ):
        _share(made, [arr])
    return made if _made is None else _notify_made([made])[0]


def copy_all(arrays: Sequence[ArrayImpl], shardings: Sequence[Any]) -> list[ArrayImpl]:
    """Arrays of one device each on other devices, `shardings` saying which: all of them in one transfer, and committed."""
    natives = [sharding.native for sharding in shardings]
    moved = _jax.batched_copy_array_to_devices_with_sharding(
        list(arrays), [n._internal_device_list for n in natives], natives, [_REUSE] * len(natives)
    )
    made = [
        new._rewrap_with_aval_and_sharding(_typing(old.aval, sharding), native)
        for new, old, sharding, native in zip(moved, arrays, shardings, natives)
    ]
    return _notify_made(made)


def rewrap(arr: ArrayImpl, aval: Any, sharding: Any, committed: bool = True) -> ArrayImpl:
    """The same buffers under another type, sharding or commitment."""
    made = _rewrapped(arr, _typing(aval, sharding), sharding.native, committed)
    _share(made, [arr])
    return made


def _rewrapped(arr: ArrayImpl, aval: Any, native: Any, committed: bool) -> ArrayImpl:
    if committed:  # which the native call makes it
        return arr._rewrap_with_aval_and_sharding(aval, native)
    return ArrayImpl(aval, native, _parts.split(arr), committed, _skip_checks=True)


# -- arrays that share buffers -------------------------------------------------------------------------------

# By id of an array, the arrays with which it shares buffers, and itself.
sharing: dict[int, list[weakref.ref]] = {}
_sharing_lock = threading.RLock()  # reentrant: a finalizer may run while its thread holds it


def _share(made: ArrayImpl, others: Sequence[ArrayImpl]) -> None:
    """Records that an array shares the buffers of others: donating one deletes all of them."""
    group: list[weakref.ref] = []
    with _sharing_lock:
        for x in (made, *others):
            number = id(x)
            known = sharing.get(number)
            if known is None:
                group.append(weakref.ref(x, lambda _, number=number: sharing.pop(number, None)))  # type: ignore[misc]
                sharing[number] = group
            elif known is not group:
                for ref in known:
                    one = ref()
                    if one is not None:
                        group.append(ref)
                        sharing[id(one)] = group


def all_apart(arrays: Sequence[Any]) -> bool:
    """Whether these are different arrays that share no buffers; fast enough for every warm call."""
    numbers = set(map(id, arrays))
    return len(numbers) == len(arrays) and (not sharing or sharing.keys().isdisjoint(numbers))


def alias_group(arr: ArrayImpl) -> int:
    """Equal for arrays that share buffers."""
    return id(sharing.get(id(arr), arr))


def give_up(arr: ArrayImpl) -> Sequence[ArrayImpl]:
    """Deletes an array (or marks a donated one as deleted) and all that share its buffers; returns them.

    An array with further buffers deletes only itself: other arrays may share those.
    """
    mark_deleted(arr)
    if id(arr) not in sharing:
        return (arr,)
    out = [arr]
    for ref in sharing.get(id(arr), ()):
        other = ref()
        if (
            other is not None
            and other is not arr
            and (other.is_deleted() or any(part.is_deleted() for part in _parts.split(other)))
        ):
            out.append(other)
    for one in out:
        forget_shards(one)
        if one is arr:
            continue
        if len(one._sharding._internal_device_list) == 1:
            mark_deleted(one)
        else:
            one._replace_with(_without_data(one))
    return out


def _without_data(arr: ArrayImpl) -> ArrayImpl:
    """A deleted array of the same type and sharding."""
    native = arr._sharding
    if _make_single is None:
        raise RuntimeError("arrays of several devices need xlab.sharding to be imported first.")
    empty = np.zeros((0,), arr.dtype)
    parts = [
        _put(
            _shard_aval(arr.aval, (0,)),
            _make_single(device, native.memory_kind).native,
            [empty],
            [device],
            True,
            False,
            _COPY_NOW,
            True,
        )
        for device in native._internal_device_list.addressable_device_list
    ]
    made = ArrayImpl(arr.aval, native, parts, arr._committed, _skip_checks=True)
    mark_deleted(made)
    return made


def result_handler(aval: Any, sharding: Any, committed: bool = True) -> ResultHandler:
    """Makes an array of an executable's output buffers; build one per output and keep it."""
    return _jax.array_result_handler(_typing(aval, sharding), sharding.native, committed, True)


def execute(exe: Any, flat_args: Sequence[ArrayImpl], handlers: Sequence[Any]) -> list[Any]:
    """Runs an executable; arguments must already have its types, layouts and shardings."""
    return _notify_made(exe.execute_sharded(flat_args).consume_with_handlers(handlers))


_turn = threading.Lock()
_running: Any = None


Describe = Callable[[list[int], list[int], float], str]


def execute_in_turn(
    exe: Any,
    flat_args: Sequence[ArrayImpl],
    handlers: Sequence[Any],
    describe: Describe | None = None,
) -> list[Any]:
    """As `execute`, for programs with collectives: each starts when the previous one has ended.

    A collective holds a thread per device until all devices have arrived, and the runtime has one thread per device:
    two such programs in flight can take each other's threads, and the runtime then ends the process. With `describe`, which says what is
    the matter when devices wait for ever, the program is watched.
    """
    return execute_with_token(
        exe, flat_args, handlers, needs_serial_launch=True, describe=describe
    )[0]


def execute_with_token(exe: Any, flat_args: Sequence[ArrayImpl], handlers: Sequence[Any], *,
                       needs_serial_launch: bool = False, describe: Describe | None = None) -> tuple[list[Any], Any]:  # fmt: skip
    """As `execute` or `execute_in_turn`; also returns the completion token of the run."""
    global _running
    if not needs_serial_launch:
        with calling.eagerly():
            results = exe.execute_sharded(flat_args, with_tokens=True)
        done = results.consume_token()
        return _notify_made(results.consume_with_handlers(handlers)), done
    in_callback = calling.is_inside()
    if in_callback:
        calling.admit()
        calling.wait_patiently(lambda seconds: _turn.acquire(timeout=seconds))
    else:
        _turn.acquire()
    try:
        watchdog.wait()
        if _running is not None:
            if in_callback:
                calling.wait_for_token(_running)
            else:
                with contextlib.suppress(Exception):  # the caller of that program gets its error
                    _running.block_until_ready()
        results = exe.execute_sharded(flat_args, with_tokens=True)
        done = _running = results.consume_token()
        outs = _notify_made(results.consume_with_handlers(handlers))
        if describe is not None:
            watched = [x for x in outs if type(x) is ArrayImpl]
            watchdog.watch(watchdog.Watched(watched[:1] or outs[:1], describe))
        return outs, done
    finally:
        _turn.release()


def _await(arrays: Sequence[Any]) -> None:
    """Waits for arrays while a watched program, one that may deadlock, is running."""
    watchdog.wait(
        lambda: all(type(x) is not ArrayImpl or x.is_deleted() or x.is_ready() for x in arrays)
    )


def _waiting(wait: Callable[[Any], Any], what: Any) -> Any:
    if watchdog.calling:
        with watchdog.waiting():
            return wait(what)
    return wait(what)


def wait_until_ready(arr: ArrayImpl) -> ArrayImpl:
    """Waits for one array, and returns it."""
    if watchdog.current() is not None:
        _await([arr])
    return _waiting(NATIVE["block_until_ready"], arr)


def block_until_idle() -> None:
    """Waits for the last program with collectives; raises its error, once."""
    global _running
    watchdog.wait()
    running = _running
    if running is not None:
        try:
            running.block_until_ready()
        except Exception:
            if _running is running:
                _running = None
            raise


def block_until_ready(arrays: Sequence[ArrayImpl]) -> None:
    """Waits for all of them, raising the first error."""
    if watchdog.current() is not None:
        _await(arrays)
    try:
        _waiting(_jax.batched_block_until_ready, list(arrays))
    except RuntimeFailure as e:
        for x in arrays:
            if x.is_deleted():
                x.block_until_ready()  # raises the error of its computation
        reraise(e)


def to_dlpack(arr: ArrayImpl) -> Any:
    """A DLPack capsule that shares the buffer of a one-device array."""
    return _jax.buffer_to_dlpack_managed_tensor(arr)


def from_dlpack(capsule: Any, device: Any, make_aval: Callable[[tuple[int, ...], np.dtype], Any],
                sharding: Any) -> ArrayImpl:  # fmt: skip
    """An array that shares the capsule's buffer; its type is `make_aval(shape, dtype)`."""
    raw = _jax.dlpack_managed_tensor_to_buffer(capsule, device, None, None)
    host = to_numpy(raw)
    return raw._rewrap_with_aval_and_sharding(make_aval(host.shape, host.dtype), sharding.native)


def major_to_minor(x: ArrayImpl) -> tuple[int, ...]:
    """The layout of an array: its dimensions from major to minor; the default for a deleted one."""
    if x.is_deleted():  # native code would read the layout of a buffer that is not there
        return tuple(range(x.ndim))
    return tuple(reversed(x._pjrt_layout._xla_layout().minor_to_major()))
