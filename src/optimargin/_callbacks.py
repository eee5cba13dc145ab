"""scikit-learn's callbacks where it has them (from 1.9 on), and nothing where it does not."""

from contextlib import contextmanager

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's mixin."""

    def with_callbacks(method):
        """Stand in for scikit-learn's decorator."""
        return method


class FitTasks:
    """The tasks of a fit as callbacks see them: one a problem, with one below it an iteration.

    Parameters
    ----------
    estimator : estimator
        Being fitted; costs nothing unless callbacks were set on it.
    n_problems : int
    """

    def __init__(self, estimator, n_problems):
        self._estimator = estimator
        self._context = None
        if getattr(estimator, "_skl_callbacks", None):
            self._context = estimator._init_callback_context(max_subtasks=n_problems)
            self._context.call_on_fit_task_begin(estimator=estimator)

    @contextmanager
    def problem(self, solver):
        """Report the iterations of `solver` while it solves one problem."""
        if self._context is None:
            yield
            return
        context = self._context.subcontext(task_name="problem", max_subtasks=None)
        context.call_on_fit_task_begin(estimator=self._estimator)

        def begin():
            task = context.subcontext(task_name="iteration")
            task.call_on_fit_task_begin(estimator=self._estimator)
            return lambda: bool(task.call_on_fit_task_end(estimator=self._estimator))

        solver.begin_iteration = begin
        yield
        context.call_on_fit_task_end(estimator=self._estimator)

    def close(self):
        """Tell the callbacks that the fit is over."""
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._estimator)
