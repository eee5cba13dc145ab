"""The archives written here are those that skops would write."""

import json
from io import BytesIO
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest
import skops.io
from scipy.sparse import csr_array, csr_matrix
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import optimargin
from optimargin.io._archive import NotPlainError, archive_model
from optimargin.io._models import _trusted

pytestmark = pytest.mark.quick

CLASSIFIERS = ["LDMClassifier", "LinearLDMClassifier", "LinearODMClassifier", "ODMClassifier"]


def content_of(archive):
    """Return the tree and the arrays of an archive without what differs between writers."""
    with ZipFile(BytesIO(archive)) as file:

        def plain(node):
            if isinstance(node, list):
                return [plain(part) for part in node]
            if not isinstance(node, dict):
                return node
            node = {key: plain(part) for key, part in node.items() if key != "__id__"}
            if "file" in node:
                node["file"] = file.read(node["file"])
            return node

        return plain(
            {k: v for k, v in json.loads(file.read("schema.json")).items() if k != "_skops_version"}
        )


@pytest.mark.parametrize("labels", [["ant", "bee"], [-1, 1], ["ant", "bee", "cicada"]])
@pytest.mark.parametrize("container", [np.array, csr_matrix, csr_array])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_archive_is_that_of_skops(name, container, labels):
    X, y = make_classification(
        40, 5, n_informative=4, n_redundant=0, n_classes=len(labels), random_state=0
    )
    y = np.array(labels)[y]
    parameters = {"class_weight": {labels[0]: 2.0}, "tol": np.float64(1e-5), "random_state": 3}
    model = getattr(optimargin, name)(**parameters).fit(container(X), y)
    ours = archive_model(model)
    assert content_of(ours) == content_of(skops.io.dumps(model))
    copy = skops.io.loads(ours, trusted=_trusted())
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))


def test_archive_of_a_pipeline_is_that_of_skops():
    X, y = make_classification(40, 5, random_state=0)
    labels = np.array(["no", "yes"], dtype=object)[y]
    columns = ColumnTransformer([("all", "passthrough", slice(0, 5))])
    model = make_pipeline(columns, StandardScaler(), optimargin.LinearODMClassifier())
    model.fit(pd.DataFrame(X, columns=list("abcde")), labels)
    ours = archive_model(model)
    assert content_of(ours) == content_of(skops.io.dumps(model))
    copy = skops.io.loads(ours, trusted=_trusted())
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))


def test_other_parts_are_left_to_skops():
    X, y = make_classification(40, 5, random_state=0)
    for model in (
        StandardScaler().fit(X),
        make_pipeline(SimpleImputer(), optimargin.LinearODMClassifier()).fit(X, y),
        optimargin.ODMClassifier(random_state=np.random.RandomState(0)).fit(X, y),
        optimargin.ODMClassifier(class_weight={np.int64(1): 2.0}).fit(X, y),
    ):
        with pytest.raises(NotPlainError):
            archive_model(model)
