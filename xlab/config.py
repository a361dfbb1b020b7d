"""Options: one declaration per flag, environment variables, and context managers.

Ground floor, standard library only. `config.<flag>` reads a flag; `config.update(name, value)` sets it for the
process; the functions at the end (`enable_x64(True)`, ...) set it for a `with` block of one thread. Flags that
change what tracing or lowering produces make up `config.trace_context()`, the key of every cache.

Example:
    >>> config.enable_x64
    False
    >>> with enable_x64(True):
    ...     config.enable_x64
    True
"""

from __future__ import annotations

import itertools
import operator
import os
import re
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any

from xlab import absl_flags
from xlab.flags import FLAGS, WITHOUT_EFFECT, Flag

_PREFIX = "xlab_"
_FOREIGN_PREFIX = "jax_"


_TRACED = tuple(flag.name for flag in FLAGS.values() if flag.traced)


class _Box:
    """Holds one thread's cached trace context; emptied from any thread when a global value changes."""

    __slots__ = ("__weakref__", "context", "local")

    def __init__(self):
        self.context = None
        self.local = ()


class Config(threading.local):
    """The process's options. Global values are class attributes, so a thread's own value simply shadows them."""

    _box = _Box()
    _extras: dict[str, Any] = {}
    _version = 0

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            raise AttributeError(f"Set options with config.update({name!r}, {value!r}).")

    def update(self, name: str, value: Any) -> None:
        """Sets a flag for the whole process.

        Example:
            >>> config.update("log_compiles", False)
        """
        if (about := WITHOUT_EFFECT.get(_plain(name))) is not None:
            warnings.warn(
                f"The option {name!r} has no effect in xlab: it is about {about}.", stacklevel=2
            )
            return
        flag = _flag(name)
        value = flag.check(value)
        if flag.idle:
            return flag.warn_idle(value)
        for validate in _validators.get(flag.name, ()):
            validate(value)
        with _lock:
            setattr(Config, flag.name, value)
            (_updated.discard if value == _initial[flag.name] else _updated.add)(flag.name)
            if flag.traced:
                Config._version += 1
                for box in tuple(_boxes):
                    box.context = None
        if flag.traced:
            _notify()
        for observe in _observers.get(flag.name, ()):
            observe(value)

    def read(self, name: str) -> Any:
        """The flag's value in this thread; accepts prefixed names."""
        return getattr(self, _flag(name).name)

    def source(self, name: str) -> str:
        """Where this thread's value of a flag is from: `local` (a `with` block), `global` (`update`), `env` (the environment) or `default`."""
        flag = _flag(name)
        if flag.name in self.__dict__:
            return "local"
        if flag.name in _updated:
            return "global"
        return "env" if flag.env in os.environ else "default"

    @property
    def values(self) -> dict[str, Any]:
        """Every flag and its value in this thread."""
        return {name: getattr(self, name) for name in FLAGS}

    def config_with_absl(self) -> None:
        """Makes every option a flag `--jax_NAME` of programs that `absl.app.run` starts."""
        absl_flags.define(FLAGS.values(), self.update)

    def parse_flags_with_absl(self) -> None:
        """As `config_with_absl`, and reads the command line at once: for programs that `absl.app` does not start."""
        absl_flags.parse(FLAGS.values(), self.update)

    @property
    def x64_enabled(self) -> bool:
        """Whether 64-bit types are kept: `enable_x64` by the name that programs ask for."""
        return self.enable_x64

    def trace_context(self) -> tuple:
        """Hashable values of everything that changes what tracing and lowering produce, for this thread."""
        return self._box.context or self._rebuild()

    def local_context(self) -> tuple:
        """The part of `trace_context` that this thread alone has set; empty when it has set nothing."""
        return self._box.local

    def global_version(self) -> int:
        """Counts changes of `global_context`."""
        return Config._version

    def global_context(self) -> tuple:
        """The part of `trace_context` that all threads share."""
        return tuple(getattr(Config, name) for name in _TRACED)

    def _rebuild(self) -> tuple:
        box = self._box
        extras = self._extras
        values = [getattr(self, name) for name in _TRACED]
        values += [(name, extras[name]) for name in _extra_names if name in extras]
        box.context = context = tuple(values)
        return context

    def set_local(self, name: str, value: Any) -> None:
        """Sets a flag for this thread until `unset_local`; prefer the context managers."""
        self.__dict__[name] = value
        if FLAGS[name].traced:
            self._local_changed()

    def unset_local(self, name: str) -> None:
        """Makes this thread follow the global value again."""
        if self.__dict__.pop(name, _MISSING) is not _MISSING and FLAGS[name].traced:
            self._local_changed()

    def context_value(self, name: str) -> Any:
        """This thread's extra context value (such as the current mesh), or None."""
        return self._extras.get(name)

    def set_context_value(self, name: str, value: Any) -> Any:
        """Makes a hashable value part of this thread's trace context; returns the previous one."""
        if name not in _extra_names:
            with _lock:
                if name not in _extra_names:
                    _extra_names.append(name)
        own = self.__dict__.get("_extras")
        if own is None:
            own = self.__dict__["_extras"] = {}
        previous = own.get(name)
        if value is None:
            own.pop(name, None)
        else:
            own[name] = value
        self._local_changed()
        return previous

    def _local_changed(self) -> None:
        own = self.__dict__
        box = own.get("_box")
        if box is None:
            box = own["_box"] = _Box()
            with _lock:
                _boxes.add(box)
        box.context = None
        local = [(name, own[name]) for name in _TRACED if name in own]
        extras = own.get("_extras")
        if extras:
            local += [(name, extras[name]) for name in _extra_names if name in extras]
        box.local = tuple(local)
        _notify()

    def subscribe(self, fn: Callable[[], Any]) -> None:
        """Calls `fn()`, in the thread concerned, after each change of the trace context."""
        _subscribers.append(fn)

    def add_observer(self, name: str, fn: Callable[[Any], Any]) -> None:
        """Calls `fn(value)` after `name` was updated for the whole process."""
        _observers.setdefault(name, []).append(fn)

    def add_validator(self, name: str, fn: Callable[[Any], Any]) -> None:
        """Calls `fn(value)` before `name` is updated; it raises to refuse."""
        _validators.setdefault(name, []).append(fn)


_MISSING = object()
_lock = threading.RLock()
_initial: dict[str, Any] = {}  # from the environment, or the default
_updated: set[str] = set()  # names of flags that have another value by now
_boxes: weakref.WeakSet[_Box] = weakref.WeakSet([Config._box])
_extra_names: list[str] = []
_subscribers: list[Callable[[], Any]] = []
_validators: dict[str, list[Callable[[Any], Any]]] = {}
_observers: dict[str, list[Callable[[Any], Any]]] = {}


def _notify() -> None:
    for fn in _subscribers:
        fn()


def _plain(name: str) -> str:
    for prefix in (_PREFIX, _FOREIGN_PREFIX):
        if name.startswith(prefix):
            return name[len(prefix) :]
    return name


def _flag(name: str) -> Flag:
    flag = FLAGS.get(_plain(name))
    if flag is None:
        raise AttributeError(_unknown(name))
    return flag


def _unknown(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(_plain(name), FLAGS, 3)
    hint = f" Did you mean {' or '.join(near)}?" if near else " xlab.observe.settings() lists all."
    return f"There is no option {name!r}.{hint}"


def _load_environment() -> None:
    for flag in FLAGS.values():
        text = os.environ.get(flag.env)
        value = flag.default if text is None else flag.check(flag.parse(text))
        if flag.idle:
            flag.warn_idle(value)
            value = flag.default
        setattr(Config, flag.name, value)
        _initial[flag.name] = value
        # Properties rather than __getattr__, whose mere presence would double the cost of every read.
        alias = property(operator.attrgetter(flag.name), doc=flag.doc)
        for prefix in (_PREFIX, _FOREIGN_PREFIX):
            setattr(Config, prefix + flag.name, alias)


def cpu_device_count() -> int:
    """How many CPU devices a new client gets: the option, else XLA_FLAGS, else 8 in notebooks and 1 in scripts."""
    if config.num_cpu_devices is not None:
        return config.num_cpu_devices
    match = re.search(
        r"--xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", "")
    )
    if match:
        return int(match.group(1))
    return 8 if in_notebook() else 1


def in_notebook() -> bool:
    """Whether the process is an IPython session or kernel."""
    module = sys.modules.get("IPython")
    get_ipython = getattr(module, "get_ipython", None)
    return get_ipython is not None and get_ipython() is not None


class flag_context:
    """Sets one flag for a `with` block of the current thread, or for the calls of a decorated function."""

    __slots__ = ("_name", "_previous", "_value")

    def __init__(self, name: str, value: Any):
        flag = _flag(name)
        self._name = flag.name
        self._value = flag.check(value)
        if flag.idle:
            flag.warn_idle(self._value)
            self._value = flag.default
        self._previous: list[Any] = []

    def __enter__(self) -> None:
        self._previous.append(config.__dict__.get(self._name, _MISSING))
        config.set_local(self._name, self._value)

    def __exit__(self, *exc_info: object) -> None:
        previous = self._previous.pop()
        if previous is _MISSING:
            config.unset_local(self._name)
        else:
            config.set_local(self._name, previous)

    def __call__(self, fun: Callable) -> Callable:
        @wraps(fun)
        def wrapped(*args, **kwargs):
            with flag_context(self._name, self._value):
                return fun(*args, **kwargs)

        return wrapped


def _scoped(name: str, *default: Any) -> Callable[..., flag_context]:
    if default:

        def scope(new_val: Any = default[0]) -> flag_context:
            return flag_context(name, new_val)

    else:

        def scope(new_val: Any) -> flag_context:
            return flag_context(name, new_val)

    scope.__name__ = scope.__qualname__ = name
    scope.__doc__ = f"Context manager: {FLAGS[name].doc}"
    return scope


def idle_argument(function: str, name: str, value: Any, why: str) -> None:
    """Warns that an argument taken for compatibility with JAX has no effect, if it asks for something."""
    if value is not None and value is not False and value != ():
        warnings.warn(f"{function}({name}=...) has no effect in xlab: {why}.", stacklevel=3)


_load_environment()
config = Config()

enable_x64 = _scoped("enable_x64", True)
debug_nans = _scoped("debug_nans", True)
debug_infs = _scoped("debug_infs", True)
debug_key_reuse = _scoped("debug_key_reuse", True)


def disable_jit(disable: bool = True) -> flag_context:
    """Context manager: jitted functions run op by op, as plain Python, so that prints and debuggers see values.

    Example:
        >>> import xlab
        >>> with xlab.disable_jit():
        ...     xlab.jit(lambda x: x if x > 1 else -x)(2.0)
        2.0
    """
    return flag_context("disable_jit", disable)


log_compiles = _scoped("log_compiles", True)
explain_cache_misses = _scoped("explain_cache_misses", True)
check_tracer_leaks = _scoped("check_tracer_leaks", True)
checking_leaks = check_tracer_leaks
no_execution = _scoped("no_execution", True)
eager_constant_folding = _scoped("eager_constant_folding", True)
enable_custom_prng = _scoped("enable_custom_prng", True)
threefry_partitionable = _scoped("threefry_partitionable", True)
default_device = _scoped("default_device")
default_matmul_precision = _scoped("default_matmul_precision")
default_prng_impl = _scoped("default_prng_impl")
numpy_dtype_promotion = _scoped("numpy_dtype_promotion")
numpy_rank_promotion = _scoped("numpy_rank_promotion")
enable_checks = _scoped("enable_checks", True)
enable_debug_checks = _scoped("debug_checks", True)
strict_divergence = _scoped("strict_divergence", True)
auto_pcast = _scoped("auto_pcast", True)
no_tracing = _scoped("no_tracing", True)
softmax_custom_jvp = _scoped("softmax_custom_jvp", True)
allow_f16_reductions = _scoped("allow_f16_reductions")
uninitialized_memory = _scoped("uninitialized_memory")
kernels_default_interpret = _scoped("kernels_default_interpret")
legacy_prng_key = _scoped("legacy_prng_key")
enable_compilation_cache = _scoped("enable_compilation_cache", True)
raise_persistent_cache_errors = _scoped("raise_persistent_cache_errors", True)
use_shardy_partitioner = _scoped("use_shardy_partitioner", True)
remove_size_one_mesh_axis_from_type = _scoped("remove_size_one_mesh_axis_from_type", True)
jax2tf_associative_scan_reductions = _scoped("jax2tf_associative_scan_reductions", True)

_guarding_threads: list[int | None] = []


class thread_guard(flag_context):
    """Context manager: while on, only this thread may run programs on devices of several processes.

    Processes run such programs in step; threads that start them in different orders make the processes wait for one another
    for ever.
    """

    __slots__ = ()

    def __init__(self, new_val: bool = True):
        super().__init__("thread_guard", new_val)

    def __enter__(self) -> None:
        super().__enter__()
        _guarding_threads.append(threading.get_ident() if self._value else None)

    def __exit__(self, *exc_info: object) -> None:
        super().__exit__(*exc_info)
        _guarding_threads.pop()


def check_thread(what: str) -> None:
    """Raises in a thread other than the one that set the `thread_guard`, if there is one."""
    owner = _guarding_threads[-1] if _guarding_threads else None
    if owner is not None and threading.get_ident() != owner:
        raise RuntimeError(
            f"{what} runs on devices of several processes and was called from thread {threading.get_ident()} while the "
            f"thread guard is set in thread {owner}: processes must run such programs in one order, so "
            f"run them from one thread"
        )


class UserContext:
    """A user's value that is part of the key of traced programs; made by `make_user_context`."""

    def __init__(self, default_value: Any, name: str):
        self._default, self._name = default_value, name

    @property
    def value(self) -> Any:
        """The value in this thread."""
        box = config.context_value(self._name)
        return self._default if box is None else box[0]

    def __call__(self, value: Any) -> _UserValue:
        return _UserValue(self._name, value)


class _UserValue:
    __slots__ = ("_name", "_previous", "_value")

    def __init__(self, name: str, value: Any):
        hash(value)
        self._name, self._value, self._previous = name, value, []

    def __enter__(self) -> None:
        self._previous.append(config.set_context_value(self._name, (self._value,)))

    def __exit__(self, *exc_info: object) -> None:
        config.set_context_value(self._name, self._previous.pop())


_user_contexts = itertools.count()


def make_user_context(default_value: Any = None) -> UserContext:
    """A context for a value of your own: jitted functions are traced again where it has another value.

    Example:
        >>> style = make_user_context("plain")
        >>> with style("bold"):
        ...     style.value
        'bold'
        >>> style.value
        'plain'
    """
    return UserContext(default_value, f"user context {next(_user_contexts)}")
