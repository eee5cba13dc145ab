"""Callbacks hear of fits to a cluster."""

import dask.array as da
import pytest
from distributed import Client

from optimargin.dask import DaskLinearODMClassifier
from tests.cases import two_classes

pytestmark = pytest.mark.quick

pytest.importorskip("sklearn.callback")


def test_callbacks_hear_of_a_fit_and_stay_with_the_estimator_they_were_set_on():
    from tests.estimators.test_callbacks import Recorder

    X, y = two_classes(90, 3)
    recorder = Recorder()
    model = DaskLinearODMClassifier(tol=1e-10).set_callbacks(recorder)
    with Client(processes=False, dashboard_address=":0", n_workers=1):
        model.fit(da.from_array(X, chunks=(30, 3)), da.from_array(y, chunks=30))
    recorder.check_balanced()
    assert recorder.names()["problem"] == 1
    assert "_skl_callbacks" not in vars(model.to_local())
