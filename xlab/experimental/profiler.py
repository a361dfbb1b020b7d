"""What the instructions of compiled programs cost, from profiles that `profiler.start_trace` wrote.

Example:
    >>> get_profiled_instructions_proto("/nowhere")
    Traceback (most recent call last):
    FileNotFoundError: no profile under /nowhere: neither *.xplane.pb nor plugins/profile/*/*.xplane.pb is there. Write one with xlab.profiler.start_trace('/nowhere'), the program, and stop_trace()
"""

from xlab.backend.profiler import profiled_instructions as get_profiled_instructions_proto

__all__ = ["get_profiled_instructions_proto"]
