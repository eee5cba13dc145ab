"""Models for data on a Dask cluster; needs the extra ``dask``.

The driver runs the same solver as on one machine. Workers reduce blocks of rows to a few numbers,
and these are added in a tree. Workers keep nothing between rounds, so a block on a lost worker is
computed again on another one.
"""

from optimargin.dask._estimators import (
    DaskLinearODMClassifier,
    DaskLinearODMRegressor,
    DaskODMClassifier,
    DaskODMRegressor,
    DaskOneClassODM,
)

__all__ = [
    "DaskLinearODMClassifier",
    "DaskLinearODMRegressor",
    "DaskODMClassifier",
    "DaskODMRegressor",
    "DaskOneClassODM",
]
