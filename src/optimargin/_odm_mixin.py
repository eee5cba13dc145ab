"""What the kernel and the linear ODM classifier share."""

from numbers import Real

from sklearn.utils._param_validation import Interval

from optimargin.problems import ODMLoss


class ODMMixin:
    """The parameters of the ODM loss."""

    _parameter_constraints: dict = {
        "C1": [Interval(Real, 0, None, closed="neither")],
        "C2": [Interval(Real, 0, None, closed="left")],
        "D": [Interval(Real, 0, 1, closed="left")],
    }

    def _make_loss(self):
        return ODMLoss(float(self.C1), float(self.C2), float(self.D))
