"""How much memory does a compiled program need, for what, and when?

`memory.py`; `buffer_assignment.py` reads where the compiler put each buffer, `protobuf.py` decodes protocol buffers.
"""
