"""Classifiers for data on a Dask cluster; needs the extra ``dask``.

The driver runs the same solver as on one machine; workers turn blocks of rows into sums of a few
numbers, and these are added in a tree. Workers keep nothing between rounds, so a block on a lost
worker is computed again elsewhere.
"""

from optimargin.dask._estimators import DaskLinearODMClassifier, DaskODMClassifier

__all__ = ["DaskLinearODMClassifier", "DaskODMClassifier"]
