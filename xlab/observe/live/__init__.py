"""Which arrays are alive now, and which line made them?"""
