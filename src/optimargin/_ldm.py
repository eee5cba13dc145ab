"""The kernel large margin distribution machine."""

from sklearn.utils._param_validation import StrOptions

from optimargin._kernel_base import KernelClassifier
from optimargin._ldm_mixin import LDMMixin, ldm_design

_INTERIOR_UP_TO = 200  # samples up to which factorisations cost less than descent


class LDMClassifier(LDMMixin, KernelClassifier):
    """Kernel large margin distribution machine.

    Minimises ``1/2 |w|^2 + lambda1 Var - lambda2 Mean + C sum_i w_i max(0, 1 - g_i)`` over the
    margins ``g_i = y_i f(x_i)``: a support vector machine that also makes the mean of the margins
    large and their variance small. ``lambda1 = lambda2 = 0`` is the SVM with ``C / n_samples``
    for its C. The paper calls it ODM^L; it was published as LDM.

    Parameters
    ----------
    C : float, default=256.0
        Price of margins below one. ``np.inf`` asks for a hard margin: all margins at least one.
    lambda1 : float, default=4.0
        Weight of the margin variance.
    lambda2 : float, default=1.0
        Weight of the margin mean.
    kernel : {"linear", "rbf", "poly", "sigmoid", "precomputed"} or callable, default="rbf"
    gamma : {"scale", "auto", "mean_distance"} or float, default="scale"
        Coefficient of "rbf", "poly" and "sigmoid"; see `ODMClassifier`.
    degree : float, default=3
        Of "poly".
    coef0 : float, default=0.0
        Constant term of "poly" and "sigmoid".
    fit_intercept : bool, default=True
        Fit an intercept that the penalty on w leaves alone.
    solver : {"auto", "dcd", "interior_point"}, default="auto"
        Coordinate descent on the dual with an exact end, or an interior point method.
    tol : float, default=1e-6
        The largest certified relative duality gap; most fits end far below it.
    max_iter : int, default=1000
    class_weight : dict or "balanced", default=None
    random_state : int, RandomState instance or None, default=None
        For the order in which coordinate descent visits the samples.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    support_ : ndarray of shape (n_SV,)
        Indices of the samples with a coefficient. With ``lambda1 > 0`` these are all.
    support_vectors_ : ndarray of shape (n_SV, n_features)
    dual_coef_ : ndarray of shape (1 or n_classes, n_SV)
    intercept_ : ndarray of shape (1 or n_classes,)
    objective_ : float or ndarray of shape (n_classes,)
    dual_gap_ : float or ndarray of shape (n_classes,)
        Certified relative duality gap.
    n_iter_ : int or ndarray of shape (n_classes,)
    solver_ : str

    References
    ----------
    T. Zhang and Z.-H. Zhou, "Large margin distribution machine", KDD 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from optimargin import LDMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LDMClassifier()).fit(X, y)
    >>> model.predict(X[:3])
    array([0, 0, 0])
    """

    _parameter_constraints: dict = {
        **KernelClassifier._parameter_constraints,
        **LDMMixin._parameter_constraints,
        "solver": [StrOptions({"auto", "dcd", "interior_point"})],
    }

    def __init__(
        self,
        C=256.0,
        lambda1=4.0,
        lambda2=1.0,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        fit_intercept=True,
        solver="auto",
        tol=1e-6,
        max_iter=1000,
        class_weight=None,
        random_state=None,
    ):
        self.C = C
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.random_state = random_state

    def _linear_design(self, X, weight):
        in_samples = self._choose_solver(X) == "dcd" or X.shape[0] < X.shape[1]
        return ldm_design(X, weight, self.fit_intercept, in_samples=in_samples)

    def _choose_solver(self, X):
        if self.solver != "auto":
            return self.solver
        small = X.shape[0] <= _INTERIOR_UP_TO
        return "interior_point" if small or self.kernel == "linear" else "dcd"
