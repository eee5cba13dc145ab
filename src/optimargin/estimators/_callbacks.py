"""scikit-learn's callbacks where it has them (from 1.9 on), and nothing where it does not."""

from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from time import perf_counter

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's mixin."""

    def with_callbacks(method):
        """Stand in for scikit-learn's decorator."""
        return method


CALLBACKS = "_skl_callbacks"
"""Where `set_callbacks` keeps them."""


_TIMES: ContextVar[list[list[float]] | None] = ContextVar("iteration_times", default=None)


@contextmanager
def iteration_times():
    """Yield a list that receives the times of fits within the context, in seconds.

    One list per problem, in the order in which they are solved: when it began, and the end of each
    of its iterations.
    """
    times: list[list[float]] = []
    token = _TIMES.set(times)
    try:
        yield times
    finally:
        _TIMES.reset(token)


class FitTasks:
    """The tasks of a fit as callbacks see them: one per problem, with one per iteration below it.

    A context around the fit; costs nothing unless callbacks were set on the estimator.

    Parameters
    ----------
    estimator : estimator
        Being fitted.
    n_tasks : int or None
        The number of problems, where it is known.
    """

    def __init__(self, estimator, n_tasks):
        self._estimator = estimator
        self._n_tasks = n_tasks
        self._context = None
        self._lock = Lock()  # problems over chunks, and grids, are solved in threads

    def __enter__(self):
        if getattr(self._estimator, CALLBACKS, None):
            self._context = self._estimator._init_callback_context(max_subtasks=self._n_tasks)
            self._context.call_on_fit_task_begin(estimator=self._estimator)
        return self

    def __exit__(self, *_):
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._estimator)

    @contextmanager
    def problem(self):
        """Yield a function that reports iterations while one problem is solved, or None."""
        times = _TIMES.get()
        if times is not None:
            times.append([perf_counter()])
        if self._context is None:
            yield None if times is None else _stopwatch(times[-1])
            return
        estimator = self._estimator
        failures: list[BaseException] = []
        with self._lock:
            context = self._context.subcontext(task_name="problem", max_subtasks=None)
            context.call_on_fit_task_begin(estimator=estimator)

        def begin():
            with self._lock:
                task = context.subcontext(task_name="iteration")
                task.call_on_fit_task_begin(estimator=estimator)

            def end():
                if times is not None:
                    times[-1].append(perf_counter())
                with self._lock:
                    try:
                        return bool(task.call_on_fit_task_end(estimator=estimator))
                    except BaseException as error:
                        # Raised below: the last iteration ends with the iterator over them,
                        # and one that is thrown away cannot raise.
                        failures.append(error)
                        return True

            return end

        try:
            yield begin
            if failures:
                raise failures.pop(0)
        finally:
            with self._lock:
                context.call_on_fit_task_end(estimator=estimator)

    def tick(self, name):
        """Report a task that has no tasks of its own; return whether to stop after it."""
        if self._context is None:
            return False
        with self._lock:
            task = self._context.subcontext(task_name=name)
            task.call_on_fit_task_begin(estimator=self._estimator)
            return bool(task.call_on_fit_task_end(estimator=self._estimator))


def _stopwatch(times):
    """Return what a solver calls at each iteration, to note when it ended."""

    def end():
        times.append(perf_counter())
        return False

    return lambda: end
