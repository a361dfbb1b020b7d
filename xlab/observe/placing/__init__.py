"""Which placement would be better? `partition_model.py` (where everything would lie, without a compiler), `estimate.py` (what that would cost),
`patterns.py` (arguments that move together), `recipes.py` (ways to divide a program that have names), `proofs.py` (what was compiled),
`search.py` (the search), `experiment.py` (a program to try placements on).

May import the rooms above it in the list of `xlab.observe`.
"""
