"""How much memory does a compiled program need, for what, and when?"""
