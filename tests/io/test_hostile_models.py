"""Model files made by hand cost little, end no process, and are refused in words."""

import io
import json
import struct
import warnings
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.random_projection import SparseRandomProjection
from sklearn.svm import SVC, LinearSVC

from optimargin import LinearODMClassifier, ODMClassifier
from optimargin.io import ModelFileError, load_model, read_model_header
from tests.io.archives import (
    add_attribute,
    list_node,
    nodes_of,
    plain_node,
    put_together,
    saved,
    taken_apart,
    with_tree,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
Y = np.arange(40) % 2
SPARSE = sp.csr_matrix(np.where(X > 0, X, 0))


@pytest.fixture
def refused(tmp_path):
    """Check that a file is refused, and by which words."""

    def refused(content, words):
        path = tmp_path / "model"
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=words) as caught:
            load_model(path)
        assert str(path) in str(caught.value)

    return refused


def npz(matrix):
    out = io.BytesIO()
    sp.save_npz(out, matrix)
    return out.getvalue()


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


SPARSE_MODELS = {
    "a step of scikit-learn": lambda: (
        make_pipeline(SparseRandomProjection(3, density=0.5, random_state=0), LinearODMClassifier())
    ).fit(X, Y),
    "neighbours": lambda: KNeighborsClassifier(algorithm="brute").fit(SPARSE, Y),
    "support vectors": lambda: ODMClassifier().fit(SPARSE, Y),
}


@pytest.mark.parametrize("kind", SPARSE_MODELS)
@pytest.mark.parametrize("name", ["odd.npz", "odd.npy", "odd.dat"])
def test_indices_of_all_sparse_arrays_are_checked(kind, name, refused):
    """Whatever their entries are called: compiled code would end the process."""

    def change(tree, parts):
        (node,) = nodes_of(tree, "SparseMatrixNode")
        matrix = sp.load_npz(io.BytesIO(parts.pop(node["file"])))
        matrix.indices[-1] = 2 * 10**9
        node["file"], parts[name] = name, npz(matrix)

    refused(with_tree(saved(SPARSE_MODELS[kind]()), change), "indices from")


def test_a_matrix_of_many_rows_without_values_is_refused(refused):
    def change(tree, parts):
        (node,) = nodes_of(tree, "SparseMatrixNode")
        parts[node["file"]] = npz(sp.coo_matrix(([], ([], [])), shape=(10**12, 4)))

    refused(with_tree(saved(ODMClassifier().fit(SPARSE, Y)), change), "a coo matrix has shape")


@pytest.mark.parametrize(("name", "value"), [("_max_degree", 10**6), ("_n_out_full", 10**9)])
def test_polynomials_are_those_of_their_degree(name, value, refused):
    model = make_pipeline(PolynomialFeatures(2), LinearODMClassifier()).fit(X, Y)
    setattr(model[0], name, value)
    refused(saved(model), "not those of their degree")


@pytest.mark.parametrize(("degree", "n_features"), [(10**6, 4), (10**6, 10**6), (2, 10**5)])
def test_polynomials_that_no_file_can_hold_are_refused(degree, n_features, refused):
    model = make_pipeline(PolynomialFeatures(2), LinearODMClassifier()).fit(X, Y)
    model[0].degree = model[0]._max_degree = degree
    model[0].n_features_in_ = n_features
    model[0].n_output_features_ = 10**6 if degree > 2 else 10**10
    refused(saved(model), "more polynomial features than any|too large to be indexed")


@pytest.mark.parametrize("name", ["odd.npz", "odd.npy", "odd.dat"])
def test_archives_are_found_by_their_content(name, refused):
    def change(tree, parts):
        (node,) = nodes_of(tree, "SparseMatrixNode")
        del parts[node["file"]]
        bomb = io.BytesIO()
        with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("data.npy", bytes(150_000_000))
        node["file"], parts[name] = name, bomb.getvalue()

    refused(with_tree(saved(ODMClassifier().fit(SPARSE, Y)), change), "expands to 150 MB")


def test_methods_that_expand_at_once_are_refused(refused):
    def change(tree, parts):
        (node,) = nodes_of(tree, "SparseMatrixNode")
        bomb = io.BytesIO()
        with zipfile.ZipFile(bomb, "w", zipfile.ZIP_BZIP2) as archive:
            archive.writestr("data.npy", bytes(5_000_000))
        content = bytearray(bomb.getvalue())
        struct.pack_into("<L", content, content.rfind(b"PK\x01\x02") + 24, 100)  # as announced
        parts[node["file"]] = bytes(content)

    refused(with_tree(saved(ODMClassifier().fit(SPARSE, Y)), change), "unusual way")


def test_an_array_belongs_to_one_part(refused):
    def change(tree, parts):
        node = nodes_of(tree, "NdArrayNode")[0]
        for k in range(1000):
            add_attribute(tree, f"more{k}_", node | {"__id__": 10**9 + k})

    refused(with_tree(saved(StandardScaler().fit(X)), change), "not that of one part")
    no_identity = {"__id__": None}
    refused(
        with_tree(
            saved(StandardScaler().fit(X)),
            lambda tree, parts: nodes_of(tree, "NdArrayNode")[0].update(no_identity),
        ),
        "not that of one part",
    )


def test_parts_do_not_share_parts_without_end(refused):
    """Lists of the same two lists, forty deep, would be walked for ever."""

    def change(tree, parts):
        nested = list_node([], 1)
        for k in range(2, 42):
            nested = list_node([nested, list_node([], k - 1)], k)
        add_attribute(tree, "nested_", nested)

    refused(with_tree(saved(StandardScaler().fit(X)), change), "two of its parts have one identity")

    def within_itself(tree, parts):
        add_attribute(tree, "nested_", list_node([list_node([], 7)], 7))

    refused(with_tree(saved(StandardScaler().fit(X)), within_itself), "one identity")


def test_the_number_of_parts_is_limited(refused, monkeypatch):
    monkeypatch.setattr("optimargin.io._vetting._MAX_COST", 500)

    def change(tree, parts):
        many = [plain_node(k, 10**6 + k) for k in range(3000)]
        add_attribute(tree, "many_", list_node(many, 5))

    refused(with_tree(saved(StandardScaler().fit(X)), change), "too many parts, such as categories")
    monkeypatch.setattr("optimargin.io._vetting._MAX_MARKS", 10_000)
    refused(with_tree(saved(StandardScaler().fit(X)), change), "made of too many parts")


def test_a_model_of_too_many_parts_is_not_saved(monkeypatch):
    monkeypatch.setattr("optimargin.io._vetting._MAX_COST", 125)
    words = np.array([f"word {k}" for k in range(600)], dtype=object)[:, None]
    with pytest.raises(ModelFileError, match=r"joblib\.dump"):
        saved(OneHotEncoder().fit(words))


def scipy_object(tree, parts):
    add_attribute(
        tree,
        "odd_",
        {
            "__class__": "csr_matrix",
            "__module__": "scipy.sparse._csr",
            "__loader__": "ObjectNode",
            "__id__": 8,
        },
    )


def constructor(tree, parts):
    shape = list_node([plain_node(2**30, 11), plain_node(5, 12)], 13, "tuple")
    add_attribute(
        tree,
        "odd_",
        {
            "__class__": "csr_matrix",
            "__module__": "scipy.sparse._csr",
            "__loader__": "ConstructorFromReduceNode",
            "content": list_node([shape], 14, "tuple"),
        },
    )


def generator(tree, parts):
    made = taken_apart(skops.io.dumps([np.random.default_rng(0)]))
    node = json.loads(made.pop("schema.json"))["content"][0]
    parts.update(made)
    add_attribute(tree, "odd_", node)


def number_of_bytes(tree, parts):
    node = nodes_of(tree, "NdArrayNode")[0]
    node["__class__"], parts[node["file"]] = "bytes_", npy(np.array(10**9))


@pytest.mark.parametrize("change", [scipy_object, constructor, generator, number_of_bytes])
def test_parts_that_no_model_needs_are_refused(change, refused):
    refused(with_tree(saved(StandardScaler().fit(X)), change), "which no model needs")


def test_old_protocols_are_refused(refused):
    content = with_tree(saved(StandardScaler().fit(X)), lambda tree, _: tree.update(protocol=0))
    refused(content, "its protocol is 0")


@pytest.mark.parametrize(
    ("descr", "shape", "words"),
    [
        ("<f8", (10**11,), "not of the size that it announces"),
        ("<f8", (3,), "not of the size that it announces"),
        ("|S0", (10**18,), "is empty"),
        ("<f8", (10**18, 0), "is empty"),
        ("|O", (4,), "not of the size that it announces"),
    ],
)
def test_arrays_have_the_size_that_they_announce(descr, shape, words, refused):
    def change(tree, parts):
        out = io.BytesIO()
        header = {"descr": descr, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(out, header)
        empty = "empty" in words
        parts[nodes_of(tree, "NdArrayNode")[0]["file"]] = out.getvalue() + bytes(0 if empty else 32)

    refused(with_tree(saved(StandardScaler().fit(X)), change), words)


def test_entries_do_not_overlap(refused):
    content = bytearray(saved(LinearODMClassifier().fit(X, Y)))
    first = content.find(b"PK\x01\x02")
    struct.pack_into("<LL", content, first + 20, len(content), len(content))
    refused(bytes(content), "overlap")


def flip(parts, name):
    content = bytearray(parts[name])
    content[-3] ^= 1
    parts[name] = bytes(content)


def test_numbers_that_were_changed_are_refused(refused, tmp_path):
    parts = taken_apart(saved(LinearODMClassifier().fit(X, Y), notes={"accuracy": 0.5}))
    for name in parts:
        if name.endswith(".npy"):
            changed = dict(parts)
            flip(changed, name)
            refused(put_together(changed, sealed=False), "has changed since it was written")
    changed = parts | {"optimargin.json": parts["optimargin.json"].replace(b"0.5", b"0.9")}
    refused(put_together(changed, sealed=False), "has changed since it was written")
    refused(put_together(parts | {"more.npy": npy(X)}, sealed=False), "has changed")


def test_files_without_a_checksum_load_as_before(tmp_path):
    model = ODMClassifier().fit(SPARSE, Y)
    parts = taken_apart(saved(model, notes={"who": "me"}))
    header = json.loads(parts["optimargin.json"])
    assert len(header.pop("checksum")) == 64
    parts["optimargin.json"] = json.dumps(header).encode()
    (tmp_path / "model").write_bytes(put_together(parts))
    copy = load_model(tmp_path / "model")
    np.testing.assert_array_equal(copy.decision_function(SPARSE), model.decision_function(SPARSE))
    assert read_model_header(tmp_path / "model")["notes"] == {"who": "me"}


def test_notes_of_any_keys_and_numbers_have_a_checksum(tmp_path):
    notes = {1: float("nan"), "b": (1, 2), None: [float("inf"), 0.1 + 0.2], "é": "\n"}
    content = saved(LinearODMClassifier().fit(X, Y), notes=notes)
    (tmp_path / "model").write_bytes(content)
    assert load_model(tmp_path / "model").n_features_in_ == 4


def encoder(**changes):
    words = np.array(["a", "b", "c", "c", "b", "d"], dtype=object)[:, None]
    model = OneHotEncoder(min_frequency=2, handle_unknown="infrequent_if_exist").fit(words)
    vars(model).update(changes)
    return model


def vocabulary(columns):
    model = CountVectorizer().fit(["ant bee", "bee"])
    model.vocabulary_ = dict(zip(model.vocabulary_, columns, strict=True))
    return model


def clusters():
    model = KMeans(2, n_init=1).fit(X)
    model.cluster_centers_ = model.cluster_centers_[:, :1].copy()
    return model


def random_state():
    model = ODMClassifier(random_state=np.random.RandomState(0)).fit(X, Y)
    state = model.random_state.get_state(legacy=False)
    state["state"]["pos"] = 10**9
    model.random_state.set_state(state)
    return model


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: encoder(_n_features_outs=[1]), "fills columns that it does not make"),
        (
            lambda: encoder(_default_to_infrequent_mappings=[np.array([0, 1, 10**9, 2])]),
            "fills columns that it does not make",
        ),
        (
            lambda: encoder(_default_to_infrequent_mappings=[np.array([0])]),
            "infrequent categories",
        ),
        (
            lambda: encoder(
                _default_to_infrequent_mappings=[None], _infrequent_indices=[np.array([10**9])]
            ),
            "infrequent categories",
        ),
        (lambda: vocabulary([0, 10**9]), "words have columns"),
        (lambda: vocabulary([-1, 0]), "words have columns"),
        (clusters, "centers of clusters"),
        (random_state, "random state is out of range"),
    ],
)
def test_parts_of_scikit_learn_that_would_end_the_process_are_refused(make, words, refused):
    refused(saved(make()), words)


@pytest.mark.parametrize(
    "model",
    [
        encoder(),
        OneHotEncoder(drop="first").fit([["a"], ["b"]]),
        OneHotEncoder(max_categories=2, drop="if_binary").fit([["a", 1], ["b", 2], ["c", 1]]),
        vocabulary([1, 0]),
        KMeans(2, n_init=1).fit(X),
        PolynomialFeatures((2, 3), interaction_only=True, include_bias=False).fit(X),
        PolynomialFeatures(0).fit(X),
        LinearSVC().fit(X, Y),
        make_pipeline(PolynomialFeatures(), StandardScaler(), LinearODMClassifier()).fit(X, Y),
    ],
)
def test_the_same_parts_load_as_they_should_be(model, tmp_path):
    (tmp_path / "model").write_bytes(saved(model))
    assert type(load_model(tmp_path / "model")) is type(model)


def test_models_whose_compiled_code_trusts_all_are_neither_saved_nor_loaded(refused):
    words = "a model file cannot hold SVC, .* joblib.dump"
    with pytest.raises(ModelFileError, match=words):
        saved(make_pipeline(StandardScaler(), SVC()).fit(X, Y))
    archive = skops.io.dumps(make_pipeline(StandardScaler(), SVC()).fit(X, Y))
    header = taken_apart(saved(StandardScaler().fit(X)))["optimargin.json"]
    refused(put_together(taken_apart(archive) | {"optimargin.json": header}), words)


def test_a_model_is_loaded_without_warnings(tmp_path):
    (tmp_path / "model").write_bytes(saved(ODMClassifier().fit(SPARSE, Y)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_model(tmp_path / "model")
