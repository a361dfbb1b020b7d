"""Arrays that go from one process to another without a common program.

One process offers arrays under a number, another, which knows its address, fetches them: see `start_transfer_server`.
"""

from xlab.parallel.transfers import (
    TransferConnection,
    TransferServer,
    make_error_array,
    start_transfer_server,
)

__all__ = ["TransferConnection", "TransferServer", "make_error_array", "start_transfer_server"]
