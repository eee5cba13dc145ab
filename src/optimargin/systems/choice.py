"""Which backend a design has, and the system of a problem's iterate."""

from optimargin.designs.base import FeatureSpaceDesign
from optimargin.designs.features import FeatureDesign
from optimargin.systems.features import FeatureSystem
from optimargin.systems.samples import SampleSystem


def make_system(design, *, fit_intercept, folds=None):
    """Return the system of a design: over samples or over features, whichever are fewer to solve.

    Parameters
    ----------
    design : Design
    fit_intercept : bool
    folds : Folds, default=None
        Those that will be left out; sums of features over them are kept.
    """
    is_wide = isinstance(design, FeatureDesign) and design.is_wide_and_sparse
    if is_wide or not isinstance(design, FeatureSpaceDesign):
        return SampleSystem(design, fit_intercept=fit_intercept)
    return FeatureSystem(design, fit_intercept=fit_intercept, folds=folds)


def system_of(problem, point, system=None):
    """Return the system that a solution satisfies on its active set.

    Parameters
    ----------
    problem : AdditiveProblem
        Its loss must be piecewise quadratic.
    point : Point
        A solution, or near one: it is replaced by that of the system.
    system : ActiveSystem, default=None
        One over the same design, whose factor may be the one that is needed.
    """
    curvature, decision = point.curvature, point.decision + point.intercept
    is_active = curvature > 0
    if point.pull[~is_active].any() or not problem.loss.is_quadratic_near(problem.target, decision):
        raise TypeError(
            f"{type(problem.loss).__name__} has no closed form for samples left out: it must be "
            "piecewise quadratic, and its pull must vanish where its curvature does."
        )
    if system is None:
        system = make_system(problem.design, fit_intercept=problem.fit_intercept)
    aim = decision.copy()
    aim[is_active] += point.pull[is_active] / curvature[is_active]
    return system.move(curvature, aim[:, None], decision[:, None])
