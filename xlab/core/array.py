"""`Array`: what users see of concrete arrays, traced arrays and key arrays.

Concrete arrays are instances of jaxlib's native class, which the runtime may share with another package; our members
apply to an array exactly when its `aval` is one of our types. Operators and NumPy methods come from
`numpy/array_methods.py`; here is what needs no arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from xlab.backend import arrays as _arrays
from xlab.backend import caches
from xlab.backend import client as _client
from xlab.backend.arrays import ArrayImpl
from xlab.core import avals as _avals
from xlab.core import donation, dtypes, source_info
from xlab.core.avals import ShapedArray
from xlab.core.donation import check_alive
from xlab.core.key_array import (
    KeyArray,
)
from xlab.core.shards import (
    Shard,
    covered,
    readable,
)
from xlab.core.trace import Tracer
from xlab.errors import ConcretizationTypeError
from xlab.sharding import Format, Layout, from_native
from xlab.sharding.named import distinct_parts


def is_native_array(x: Any) -> bool:
    """Whether a native array is ours."""
    return type(x) is ArrayImpl and type(x.aval) is ShapedArray


class _ArrayMeta(type):
    def __instancecheck__(cls, x):
        if cls is not Array:
            return type.__instancecheck__(cls, x)
        return (
            is_native_array(x)
            or isinstance(x, KeyArray)
            or (isinstance(x, Tracer) and isinstance(x.aval, ShapedArray))
        )

    def __subclasscheck__(cls, c):
        """So that `issubclass(type(x), Array)`, and with it `functools.singledispatch`, finds what `isinstance` finds."""
        if (
            cls is Array
            and isinstance(c, type)
            and (c is ArrayImpl or issubclass(c, (KeyArray, Tracer)))
        ):
            return True
        return type.__subclasscheck__(cls, c)


class Array(metaclass=_ArrayMeta):
    """The type of arrays, concrete or traced. Make one with `xlab.numpy`; use the class with isinstance.

    Example:
        >>> import xlab
        >>> isinstance(xlab.numpy.ones(3), xlab.Array)
        True
    """

    def __new__(cls, *args, **kwargs):
        raise TypeError(
            "Array is not made directly: use xlab.numpy.array(...), xlab.device_put(...) or "
            "xlab.make_array_from_single_device_arrays(...)"
        )


def _shape(self: Any) -> tuple[int, ...]:
    return self.aval.shape


def _len(self):
    if not self.aval.shape:
        raise TypeError("len() of an array without dimensions")
    return self.aval.shape[0]


def _host_value(self: Any) -> np.ndarray:
    """The whole array as NumPy (read-only, without a copy where one device holds it); shards are assembled."""
    check_alive(self)
    if self.aval.mat.unreduced:
        raise NotImplementedError(
            f"an array of type {self.aval} holds a sum that was not carried out yet over the mesh axes "
            f"{sorted(map(str, self.aval.mat.unreduced))}: bring it to a plain sharding first, with xlab.reshard"
        )
    cached = getattr(self, "_xlab_host", None)
    if cached is not None:
        return cached
    sharding = from_native(self._sharding)
    if not sharding.is_fully_addressable and not covered(sharding, self.aval.shape):
        raise RuntimeError(_elsewhere(self.aval, sharding))
    if sharding.num_devices == 1:
        value = _arrays.to_numpy(self)
    elif sharding.is_fully_replicated:
        value = _arrays.parts_to_numpy(self, (0,))[0]
    else:
        value = np.empty(self.aval.shape, self.aval.dtype)
        indices, owned = distinct_parts(sharding, self.aval.shape)
        positions = map(owned.index, range(len(indices)))
        for index, part in zip(indices, _arrays.parts_to_numpy(self, positions), strict=True):
            value[index] = part
        value.flags.writeable = False
        self._xlab_host = value
    return value


def _elsewhere(aval: ShapedArray, sharding: Any) -> str:
    """The error for reading an array that other processes hold parts of, with a way to get its value."""
    here, devices = sharding.addressable_in_order, sharding.devices_in_order
    owners = sorted({d.process_index for d in devices})
    text = (
        f"the array of type {aval.str_short(short_dtypes=True)} cannot be read in this process: of its {len(devices)} part{'s' * (len(devices) != 1)}, which lie "
        f"on devices of process{'es' * (len(owners) != 1)} {', '.join(map(str, owners))}, {len(here) or 'none'} "
        f"{'is' if len(here) < 2 else 'are'} here, on process {_client.process_index()}. "
    )
    if len(owners) == 1:
        return text + f"Read it in process {owners[0]}."
    return text + (
        "xlab.experimental.multihost_utils.process_allgather(x, tiled=True), called in all of these processes, gives the whole value"
        + ("; x.addressable_shards are the parts that are here." if here else ".")
    )


def _array(self, dtype=None, copy=None):
    value = self._host_value()
    if dtype is not None and np.dtype(dtype) != value.dtype:
        return value.astype(dtype)
    return value.copy() if copy else value


def _shards(self: Any) -> list[Shard]:
    """One `Shard` per addressable device, in the order of the sharding's devices; reads, never moves data."""
    check_alive(self)
    sharding = from_native(self._sharding)
    shape = self.aval.shape
    known = _arrays.known_shards(self)
    out = []
    for position, device in enumerate(sharding.addressable_in_order):
        shard = Shard(device, sharding, shape, known[position] if known else None)
        if not known:  # taken apart when somebody looks
            shard._unread = (self, position)
        out.append(shard)
    return out


def _global_shards(self: Any) -> list[Shard]:
    """One `Shard` per device, those of other processes without data."""
    mine = {shard.device: shard for shard in _shards(self)}
    sharding = from_native(self._sharding)
    return [
        mine.get(device) or Shard(device, sharding, self.aval.shape)
        for device in sharding.devices_in_order
    ]


def _repr(self):
    if self.is_deleted():
        return f"Array({self.aval.str_short(short_dtypes=False)}, deleted)"
    weak = ", weak_type=True" if self.aval.weak_type else ""
    tail = f"dtype={dtypes.name(self.aval.dtype)}{weak})"
    if self.aval.mat.unreduced or not readable(self):
        return f"Array(shape={self.aval.shape}, dtype={dtypes.name(self.aval.dtype)}, sharding={from_native(self._sharding)})"
    value = self._host_value()
    if value.size == 0:
        return f"Array([], shape={value.shape}, {tail}"
    body = np.array2string(_printable(value), separator=", ", prefix="Array(", suffix=",")
    joint = (
        ", "
        if len(body.rsplit("\n", 1)[-1]) + len(tail) + 8 <= np.get_printoptions()["linewidth"]
        else ",\n      "
    )
    return f"Array({body}{joint}{tail}"


def _str(self):
    return (
        str(_printable(self._host_value())) if self.is_deleted() or readable(self) else repr(self)
    )


def _printable(value: np.ndarray) -> np.ndarray:
    """The values as NumPy can print them: ml_dtypes become native integers or floats."""
    if value.dtype.kind != "V" or value.dtype.names is not None:
        return value
    return value.astype(np.int8 if dtypes.issubdtype(value.dtype, np.integer) else np.float32)


def _scalar(self, convert):
    if self.aval.size != 1:
        raise TypeError(
            f"only arrays with one element become a Python number, got {self.aval.str_short(short_dtypes=True)}"
        )
    if self.aval.dtype.kind == "c" and convert is not complex:
        raise TypeError(
            f"{convert.__name__}() argument must be a real number, got an array of {dtypes.name(self.aval.dtype)}: take "
            f"its .real or .imag first"
        )
    return convert(self._host_value().reshape(())[()])


def _bool(self):
    if self.aval.size != 1:
        raise ValueError(
            f"the truth of an array with {self.aval.size} elements is ambiguous: use x.any() or x.all()"
        )
    return bool(self._host_value().reshape(())[()])


def _index(self):
    if self.aval.shape or not dtypes.issubdtype(self.aval.dtype, np.integer):
        raise TypeError(
            f"only integer scalar arrays can be used as an index, got {self.aval.str_short(short_dtypes=True)}"
        )
    return int(self._host_value()[()])


@lru_cache(512)
def _type_of_shard(aval: ShapedArray, shape: tuple[int, ...]) -> ShapedArray:
    return aval.update(shape=shape, sharding=None, mat=_avals.INVARYING)


caches.register(_type_of_shard.cache_clear)
_arrays.set_shard_makers(aval=_type_of_shard)

# compile/placement.py: (NumPy array, type) -> array on the default device; set before it is called
_from_host: Callable[[np.ndarray, ShapedArray], Any] = None  # type: ignore[assignment]


def set_from_host(make):
    global _from_host
    _from_host = make


def _rebuild_array(value, weak_type):
    if _from_host is None and _load_members is not None:
        _load_members()  # a pickle may be the first that asks for this package
    return _from_host(value, ShapedArray(value.shape, value.dtype, weak_type))


def _format(self, spec):
    if self.aval.shape and spec:
        raise TypeError(
            f"an array of shape {self.aval.shape} takes no format such as {spec!r}: format its elements, or a scalar of it"
        )
    return (
        format(self._host_value()[()], spec)
        if not self.aval.shape and (spec or readable(self))
        else str(self)
    )


def _copy_to_host_async(self):
    check_alive(self)
    sharding = self.sharding
    self._copy_single_device_array_to_host_async() if len(
        sharding.device_set
    ) == 1 and sharding.is_fully_addressable else None


def _reading(name: str) -> Callable[..., Any]:
    """Wraps a native method so that a deleted or donated array raises an error that says where."""
    native = _arrays.wait_until_ready if name == "block_until_ready" else _arrays.NATIVE[name]

    def method(self, *args):
        if self.is_deleted():
            raise donation.gone(self)
        return native(self, *args)

    return method


_DLPACK_HOST = (1, 0)


def _dlpack(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    check_alive(self)
    sharding = from_native(self._sharding)
    if len(sharding.device_set) > 1:
        raise BufferError(
            f"an array of type {self.aval.str_short(short_dtypes=True)} on {len(sharding.device_set)} devices is not one buffer, as DLPack wants it. "
            f"Gather it with numpy.asarray(x) or xlab.device_put(x, x.sharding.devices_in_order[0]), or hand out the parts of "
            f"single devices, [s.data for s in x.addressable_shards]"
        )
    if stream is not None or dl_device not in (None, _DLPACK_HOST):
        raise BufferError(
            f"an array of type {self.aval.str_short(short_dtypes=True)} lies in host memory, {_DLPACK_HOST} in DLPack, where there are no streams, and "
            f"cannot be handed out for stream={stream}, dl_device={dl_device}. Leave them out"
        )
    return _arrays.to_dlpack(self.copy() if copy else self)


_MEMBERS = {
    "shape": property(_shape),
    "dtype": property(lambda self: self.aval.dtype),
    "ndim": property(lambda self: self.aval.ndim),
    "size": property(lambda self: self.aval.size),
    "itemsize": property(lambda self: dtypes.itemsize(self.aval.dtype)),
    "nbytes": property(lambda self: self.aval.nbytes),
    "weak_type": property(lambda self: self.aval.weak_type),
    "sharding": property(lambda self: from_native(self._sharding)),
    "format": property(lambda self: Format(Layout(_arrays.major_to_minor(self)), self.sharding)),
    "committed": property(lambda self: self._committed),
    "is_fully_addressable": property(lambda self: self.sharding.is_fully_addressable),
    "is_fully_replicated": property(lambda self: self.sharding.is_fully_replicated),
    "addressable_shards": property(_shards),
    "global_shards": property(_global_shards),
    "addressable_data": lambda self, index: _shards(self)[index].data,
    "devices": lambda self: set(self.sharding.device_set),
    "device": property(
        lambda self: (
            next(iter(self.sharding.device_set))
            if len(self.sharding.device_set) == 1
            else self.sharding
        )
    ),
    **{name: _reading(name) for name in _arrays.NATIVE if name != "delete"},
    "delete": donation.delete,
    "copy_to_host_async": _copy_to_host_async,
    "_host_value": _host_value,
    "__array__": _array,
    "__len__": _len,
    "__repr__": _repr,
    "__str__": _str,
    "__format__": _format,
    "__float__": lambda self: _scalar(self, float),
    "__int__": lambda self: _scalar(self, int),
    "__complex__": lambda self: _scalar(self, complex),
    "__bool__": _bool,
    "__index__": _index,
    "__reduce__": lambda self: (
        _rebuild_array,
        (np.array(self._host_value()), self.aval.weak_type),
    ),
    "__copy__": lambda self: self.copy(),
    "clone": lambda self: self.copy(),  # the native one fails in all processes but the first
    "__deepcopy__": lambda self, memo: self.copy(),
    "item": lambda self, *args: self._host_value().item(*args),
    "tolist": lambda self: self._host_value().tolist(),
    "tobytes": lambda self, order="C": self._host_value().tobytes(order),
    "__array_priority__": 1000,
    "__hash__": None,
    "__dlpack__": _dlpack,
    "__dlpack_device__": lambda self: _DLPACK_HOST,
}

_TRACED_MEMBERS = ("shape", "dtype", "ndim", "size", "itemsize", "nbytes", "weak_type", "__len__")


def _of_data(name: str) -> Callable[..., Any]:
    """An attribute of concrete arrays only: on a traced value it raises an error that says so."""

    def refuse(self, *args, **kwargs):
        raise ConcretizationTypeError(
            f"{name} asks for data or devices, got {self._describe()} at {source_info.describe_caller()}, which has them "
            f"only when the compiled program runs. Do this outside the transformed function, on its results"
            + (", or use xlab.pure_callback." if name in ("tolist", "tobytes") else ".")
        )

    return refuse


_DATA_METHODS = (
    "tolist",
    "tobytes",
    "devices",
    "addressable_data",
    "is_deleted",
    "delete",
    "unsafe_buffer_pointer",
    "on_device_size_in_bytes",
    "__dlpack__",
    "__reduce__",
)
_DATA_PROPERTIES = (
    "addressable_shards",
    "global_shards",
    "committed",
    "is_fully_addressable",
    "is_fully_replicated",
)


def install_members(members: dict[str, Any], *, tracers: bool = True, keys: bool = False) -> None:
    """Gives members to concrete arrays, and to traced arrays and key arrays where asked."""
    _arrays.install_methods(members, is_native_array)
    for cls, wanted in ((Tracer, tracers), (KeyArray, keys)):
        if wanted:
            for name, member in members.items():
                setattr(cls, name, member)


install_members(_MEMBERS, tracers=False)
for _name in _TRACED_MEMBERS:
    setattr(Tracer, _name, _MEMBERS[_name])
    setattr(KeyArray, _name, _MEMBERS[_name])
for _name in _DATA_METHODS:
    setattr(Tracer, _name, _of_data(_name))
for _name in _DATA_PROPERTIES:
    setattr(Tracer, _name, property(_of_data(_name)))

# Members installed by `numpy/array_methods.py`; the first use of one of these imports it.
_LATER_METHODS = (
    *(f"__{r}{op}__" for op in ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul", "and", "or",
                                "xor", "lshift", "rshift") for r in ("", "r")),
    *(f"__{op}__" for op in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "round", "getitem", "setitem",
                             "delitem", "iter")),
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "byteswap", "choose", "clip", "compress", "conj",
    "conjugate", "copy", "cumprod", "cumsum", "diagonal", "dot", "flatten", "max", "mean", "min", "nonzero", "prod", "ptp", "ravel", "repeat",
    "reshape", "round", "searchsorted", "sort", "squeeze", "std", "sum", "swapaxes", "take", "to_device", "trace", "transpose", "var", "view")  # fmt: skip
_LATER_PROPERTIES = ("T", "mT", "real", "imag", "at", "flat")
METHODS_OF_ARRAYS = frozenset(
    (*_LATER_METHODS, *_LATER_PROPERTIES, *_DATA_METHODS, *_DATA_PROPERTIES)
)
"""What traced values have because they stand for arrays; those of other types have what their type defines."""
_load_members: Callable[[], object] | None = None


def load_members_by(load: Callable[[], object]) -> None:
    """Sets the loader that is called when an operator or method is used before it was installed."""
    global _load_members
    _load_members = load


def _loaded(self, name, later):
    if _load_members is not None:
        _load_members()
    if getattr(type(self), name) is later:
        raise TypeError(f"arrays have no {name} yet: it comes with xlab.numpy")
    return getattr(self, name)


def _later_method(name):
    def later(self, *args, **kwargs):
        return _loaded(self, name, later)(*args, **kwargs)

    return later


def _later_property(name):
    later = property(lambda self: _loaded(self, name, later))
    return later


install_members(
    {
        **{name: _later_method(name) for name in _LATER_METHODS},
        **{name: _later_property(name) for name in _LATER_PROPERTIES},
    }
)

_avals.aval_makers[ArrayImpl] = lambda x: (
    x.aval
    if type(x.aval) is ShapedArray
    else ShapedArray(x.shape, dtypes.canonicalize_dtype(x.dtype))
)
