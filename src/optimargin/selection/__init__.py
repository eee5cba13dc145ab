"""Choosing parameters by held-out scores: grids, the search without one, and paths."""

from optimargin._ties import place_of_best

__all__ = ["place_of_best"]
