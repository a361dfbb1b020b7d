"""Checks at run time: `check` states a condition, `checkify` makes a function return whether all held."""

from xlab.parallel import checked as _checked  # noqa: F401  (the rule of shard_map)
from xlab.transforms.checkify import checkify
from xlab.transforms.checks import (
    DivisionByZeroError,
    Error,
    ErrorCategory,
    FailedCheckError,
    JaxRuntimeError,
    NaNError,
    OOBError,
    all_checks,
    automatic_checks,
    check,
    check_error,
    debug_check,
    div_checks,
    float_checks,
    index_checks,
    init_error,
    nan_checks,
    user_checks,
)

__all__ = ["DivisionByZeroError", "Error", "ErrorCategory", "FailedCheckError", "JaxRuntimeError", "NaNError", "OOBError", "all_checks",
           "automatic_checks", "check", "check_error", "checkify", "debug_check", "div_checks", "float_checks", "index_checks", "init_error",
           "nan_checks", "user_checks"]  # fmt: skip
