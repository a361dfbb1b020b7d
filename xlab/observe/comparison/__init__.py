"""How does a program compare with another one, or with itself on another machine?"""
