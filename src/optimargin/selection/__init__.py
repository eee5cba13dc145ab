"""Choosing parameters by held-out scores: grids, the search without one, and paths."""
