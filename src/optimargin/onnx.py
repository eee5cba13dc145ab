"""Fitted models as ONNX graphs, for programs without Python (extra ``onnx``).

The converters are registered with skl2onnx, so pipelines with scikit-learn's transformers are
exported completely. A graph has one input, ``X`` of shape (n_samples, n_features). That of a
classifier has two outputs: ``label``, as `predict` returns it, and ``scores``, as
`decision_function` does, and so has that of a novelty detector; that of a regressor has one,
``predictions``. Calibrated classifiers have a third one, ``probabilities``, as `predict_proba`
returns them.
"""

import re

import numpy as np
from scipy.sparse import issparse
from sklearn.base import is_outlier_detector, is_regressor
from sklearn.utils.validation import check_is_fitted

import optimargin
from optimargin.calibration import CalibrationMap
from optimargin.kernels import KERNELS, Kernel
from optimargin.margins import unwrap
from optimargin.tasks import Classification

try:
    from onnx import TensorProto
    from skl2onnx import to_onnx as _to_onnx
    from skl2onnx import update_registered_converter
    from skl2onnx.algebra import onnx_ops
    from skl2onnx.common.data_types import (
        BooleanTensorType,
        DoubleTensorType,
        FloatTensorType,
        Int64TensorType,
        StringTensorType,
    )
except ImportError as error:
    raise ImportError(
        "Exporting to ONNX needs skl2onnx: pip install 'optimargin[onnx]'."
    ) from error

__all__ = ["register_converters", "to_onnx"]

_KIND = re.compile(r".*(Classifier|Regressor)(CV)?")  # of the name of an estimator
_INPUTS = {"float32": FloatTensorType, "float64": DoubleTensorType}
_INTEGERS = (Int64TensorType, np.int64)
_LABELS = {
    "U": (StringTensorType, np.str_),
    "O": (StringTensorType, np.str_),
    "f": (DoubleTensorType, np.float64),
    "b": (BooleanTensorType, np.bool_),
}


def to_onnx(estimator, *, dtype=np.float32, target_opset=None):
    """Return a fitted model, or a pipeline that ends in one, as an ONNX model.

    Parameters
    ----------
    estimator : estimator
        A fitted classifier, regressor or novelty detector of this library, or a pipeline of
        scikit-learn's transformers and such a model. Kernels that are functions or precomputed
        have no ONNX form.
    dtype : {numpy.float32, numpy.float64}, default=numpy.float32
        The type of the input and of all computations. Not every transformer has a float64 form.
    target_opset : int or dict, default=None
        As in `skl2onnx.to_onnx`.

    Returns
    -------
    model : onnx.ModelProto
        Write it with ``path.write_bytes(model.SerializeToString())``.

    Examples
    --------
    >>> import numpy as np
    >>> import onnxruntime
    >>> from sklearn.datasets import load_iris
    >>> from optimargin import ODMClassifier
    >>> from optimargin.onnx import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ODMClassifier().fit(X, y)
    >>> graph = to_onnx(model, dtype=np.float64).SerializeToString()
    >>> label, scores = onnxruntime.InferenceSession(graph).run(None, {"X": X})
    >>> bool((label == model.predict(X)).all())
    True
    """
    name = np.dtype(dtype).name
    if name not in _INPUTS:
        raise ValueError(f"dtype={dtype!r} is unknown: use numpy.float32 or numpy.float64.")
    check_is_fitted(estimator)
    _check_kernel(unwrap(estimator))
    if is_outlier_detector(unwrap(estimator)) and not hasattr(estimator, "predict"):
        raise ValueError(
            "With novelty=False there is nothing to predict: set novelty=True and fit."
        )
    register_converters()
    inputs = [("X", _INPUTS[name]([None, estimator.n_features_in_]))]
    return _to_onnx(estimator, initial_types=inputs, target_opset=target_opset)


def register_converters():
    """Register this library's estimators with skl2onnx, to call `skl2onnx.to_onnx` directly.

    Examples
    --------
    >>> import numpy as np
    >>> from skl2onnx import to_onnx
    >>> from optimargin import LinearODMClassifier
    >>> from optimargin.onnx import register_converters
    >>> register_converters()
    >>> X = np.array([[0.0], [1.0]], dtype=np.float32)
    >>> model = to_onnx(LinearODMClassifier().fit(X, [0, 1]), X)
    >>> [output.name for output in model.graph.output]
    ['label', 'scores']
    """
    converters = {
        "Classifier": _convert_classifier,
        "Regressor": _convert_regressor,
        "OneClassODM": _convert_outlier_detector,
    }
    for name in optimargin.__all__:
        convert = converters.get(name) or converters.get(_KIND.sub(r"\1", name))
        if convert is not None:
            update_registered_converter(
                getattr(optimargin, name),
                f"Optimargin{name}",
                _set_shapes,
                convert,
                overwrite=True,
                parser=_declare,
            )


def _check_kernel(est):
    kernel = getattr(est, "kernel", "linear")
    known = [k for k, made in KERNELS.items() if made.is_linear or made.onnx is not Kernel.onnx]
    if kernel not in known:
        shown = "a function" if callable(kernel) else f"{kernel!r}"
        raise ValueError(
            f"The kernel is {shown}, which has no ONNX form: use one of {', '.join(known)}."
        )


def _declare(scope, model, inputs, custom_parsers=None):
    """Return the outputs of a model (skl2onnx calls this a parser)."""
    operator = scope.declare_local_operator(f"Optimargin{type(model).__name__}", model)
    operator.inputs.extend(inputs)
    names = ("predictions",) if is_regressor(model) else ("label", "scores", "probabilities")
    for name, type_ in zip(names, _output_types(operator), strict=False):
        operator.outputs.append(scope.declare_local_variable(name, type_))
    return operator.outputs


def _set_shapes(operator):
    for output, type_ in zip(operator.outputs, _output_types(operator), strict=True):
        output.type = type_


def _output_types(operator):
    model = operator.raw_operator
    is_double = isinstance(operator.inputs[0].type, DoubleTensorType)
    score = DoubleTensorType if is_double else FloatTensorType
    if is_regressor(model):
        n_targets = model.intercept_.size
        return [score([None] if n_targets == 1 else [None, n_targets])]
    if is_outlier_detector(model):
        return [Int64TensorType([None]), score([None])]
    classes = model.classes_
    label, _ = _LABELS.get(classes.dtype.kind, _INTEGERS)
    types = [label([None]), score([None] if classes.size == 2 else [None, classes.size])]
    if hasattr(model, "predict_proba") and hasattr(model, "calibration_"):
        types.append(score([None, classes.size]))
    return types


def _convert_regressor(scope, operator, container):
    """Add the nodes of a fitted regressor."""
    graph, model = Graph(container, operator), operator.raw_operator
    scores = graph.scores(unwrap(model), operator.inputs[0])
    shape = np.array([-1] if model.intercept_.size == 1 else [-1, model.intercept_.size])
    graph.op("Reshape", scores, shape, output_names=operator.outputs[:1]).add_to(scope, container)


def _convert_classifier(scope, operator, container):
    """Add the nodes of a fitted classifier (skl2onnx calls this a converter)."""
    graph, est = Graph(container, operator), operator.raw_operator
    classes = est.classes_
    _, label_type = _LABELS.get(classes.dtype.kind, _INTEGERS)
    scores = graph.scores(unwrap(est), operator.inputs[0])
    if vars(unwrap(est)).get("_pairwise"):
        task = Classification(classes, np.ones(classes.size), 1.0, multi_class="ovo")
        scores = graph.votes(scores, *task.voting())
    label, score, *probability = ([output] for output in operator.outputs)
    if probability:
        made = CalibrationMap(**est.calibration_)
        node = graph.probabilities(made, scores, classes.size, probability[0])
        node.add_to(scope, container)
    if classes.size == 2:
        scores = graph.op("Reshape", scores, np.array([-1]), output_names=score)
        positive = graph.op("Greater", scores, graph.number(0))
        winner = graph.op("Cast", positive, to=TensorProto.INT64)
    else:
        scores = graph.op("Identity", scores, output_names=score)
        winner = graph.op("ArgMax", scores, axis=1, keepdims=0)
    names = classes.astype(label_type)
    graph.op("Gather", names, winner, output_names=label).add_to(scope, container)


def _convert_outlier_detector(scope, operator, container):
    """Add the nodes of a fitted novelty detector."""
    graph, est = Graph(container, operator), operator.raw_operator
    label, score = ([output] for output in operator.outputs)
    scores = graph.op("Reshape", graph.scores(est, operator.inputs[0]), np.array([-1]))
    scores = graph.op("Sub", scores, graph.number(est.offset_), output_names=score)
    is_below = graph.op("Cast", graph.op("Less", scores, graph.number(0)), to=TensorProto.INT64)
    labels = np.array([1, -1], dtype=np.int64)
    graph.op("Gather", labels, is_below, output_names=label).add_to(scope, container)


class Graph:
    """Writes formulas as ONNX nodes, in the opset of a container and the precision of the input."""

    def __init__(self, container, operator):
        is_double = isinstance(operator.inputs[0].type, DoubleTensorType)
        self._opset = container.target_opset
        self._dtype = np.float64 if is_double else np.float32
        self._onnx_type = TensorProto.DOUBLE if is_double else TensorProto.FLOAT

    def op(self, name, *inputs, **attributes):
        """Return a node."""
        return getattr(onnx_ops, f"Onnx{name}")(*inputs, op_version=self._opset, **attributes)

    def number(self, value):
        """Return a constant."""
        return np.array([value], dtype=self._dtype)

    def array(self, value):
        """Return a constant dense array: ONNX has no sparse arrays."""
        return np.ascontiguousarray(_dense(value), dtype=self._dtype)

    def scores(self, est, X):
        """Return the decision values, of shape (n_samples, n_outputs)."""
        _check_kernel(est)
        X = self.op("Cast", X, to=self._onnx_type)
        if not hasattr(est, "_kernel") or est._kernel.is_linear:
            values = self.op("MatMul", X, self.array(est.coef_.T))
        else:
            vectors = _dense(est.support_vectors_).astype(np.float64)
            kernel = est._kernel.onnx(self, X, vectors)
            values = self.op("MatMul", kernel, self.array(est.dual_coef_.T))
        return self.op("Add", values, self.array(est.intercept_))

    def votes(self, scores, first, second):
        """Return votes and confidence of classes (`optimargin.tasks.votes_and_confidence`)."""
        is_second = self.op("Cast", self.op("Greater", scores, self.number(0)), to=self._onnx_type)
        # first + is_second (second - first), summed over pairs
        votes = self.op("MatMul", is_second, self.array(second - first))
        votes = self.op("Add", votes, self.array(first.sum(axis=0)))
        confidence = self.op("MatMul", scores, self.array(second - first))
        size = self.op("Add", self.op("Abs", confidence), self.number(1))
        share = self.op("Div", confidence, self.op("Mul", size, self.number(3)))
        return self.op("Add", votes, share)

    def probabilities(self, made, scores, n_classes, output_names):
        """Return the probabilities of all classes, of shape (n_samples, n_classes).

        Parameters
        ----------
        made : CalibrationMap
        scores : node
            Decision values, of shape (n_samples, 1 or n_classes).
        n_classes : int
        output_names : list
            The output that the last node is.
        """
        odds = self._log_odds(made, scores)
        if n_classes == 2:
            both = self.op("MatMul", odds, self.array([[-1.0, 1.0]]))
            return self.op("Sigmoid", both, output_names=output_names)
        if made.knots.size == 0:
            return self.op("Softmax", odds, axis=1, output_names=output_names)
        values = self.op("Sigmoid", odds)
        total = self.op("MatMul", values, self.array(np.ones((n_classes, 1))))
        return self.op("Div", values, total, output_names=output_names)

    def _log_odds(self, made, scores):
        """Return a sum of pieces: how far a score goes through each, times its slope."""
        if made.knots.size == 0:
            return self.op("Mul", scores, self.number(made.slope))
        x, z = made.knots, made.log_odds
        column = self.op("Reshape", scores, np.array([-1, 1]))
        pieces = []
        if x.size > 1:
            way = self.op("Max", self.op("Sub", column, self.array(x[:-1])), self.number(0))
            way = self.op("Min", way, self.array(np.diff(x)))
            slopes = np.diff(z) / np.diff(x)
            pieces.append(self.op("MatMul", way, self.array(slopes[:, None])))
        for end, limit in ((x[0], "Min"), (x[-1], "Max")):
            beyond = self.op(limit, self.op("Sub", column, self.number(end)), self.number(0))
            pieces.append(self.op("Mul", beyond, self.number(made.slope)))
        total = self.op("Add", pieces[0], self.number(z[0]))
        for piece in pieces[1:]:
            total = self.op("Add", total, piece)
        return self.op("Reshape", total, self.op("Shape", scores))


def _dense(array):
    return array.toarray() if issparse(array) else array
