"""What state is the runtime in? Its settings, its caches, and effects that have not happened yet.

`settings.py`, `caches.py`, `effects.py`.
"""
