"""Profiles as files for trace viewers, annotations of spans, and what the memory of devices holds.

`ProfileData.from_file(path)` reads an `.xplane.pb`; `xlab.observe` reads profiles as records.
"""

from xlab.backend.profiler import (
    ProfileOptions,
    StepTraceAnnotation,
    TraceAnnotation,
    annotate_function,
    device_memory_profile,
    profile_data,
    register_subprocess,
    save_device_memory_profile,
    start_server,
    start_trace,
    stop_server,
    stop_trace,
    trace,
)

ProfileData, ProfileEvent, ProfilePlane = map(
    profile_data, ("ProfileData", "ProfileEvent", "ProfilePlane")
)

__all__ = [
    "ProfileData",
    "ProfileEvent",
    "ProfileOptions",
    "ProfilePlane",
    "StepTraceAnnotation",
    "TraceAnnotation",
    "annotate_function",
    "device_memory_profile",
    "register_subprocess",
    "save_device_memory_profile",
    "start_server",
    "start_trace",
    "stop_server",
    "stop_trace",
    "trace",
]
