"""Threads that work on tasks, while the thread that waits for them handles what they report."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from queue import SimpleQueue
from typing import Any, TypeVar

from vicinal import _threads
from vicinal.core.loop import Iteration
from vicinal.core.problem import Problem
from vicinal.core.stages import RunSnapshot
from vicinal.fit.report import Reports

Result = TypeVar("Result")


class Workers:
    """Work on independent tasks in several threads; results come in the order of the tasks.

    Only the thread that takes the results answers to Ctrl-C, prints, and calls callbacks: workers
    hand such calls over by `ask`.

    Parameters
    ----------
    threads : int
        How many tasks to work on at once.  They share the threads of the library.
    ahead : int, default=0
        How many tasks may be taken besides, while an earlier one is not done.

    Attributes
    ----------
    stopping : bool
        Whether what is being worked on is no longer wanted.
    """

    def __init__(self, threads: int, ahead: int = 0) -> None:
        self.threads, self.most, self.stopping = threads, threads + ahead, False
        self._todo: SimpleQueue[Any]
        self._events: SimpleQueue[Any]

    def results(
        self, function: Callable[..., Result], tasks: Iterable[tuple[Any, ...]]
    ) -> Generator[Result, None, None]:
        """``function(*task)`` for each task.

        A task is taken when a thread is free for it, so that a few more may be taken than results;
        when the caller takes no more results, these are stopped.
        """
        self.stopping, self._todo, self._events = False, SimpleQueue(), SimpleQueue()
        share = max(1, _threads.n_threads() // self.threads)
        done: dict[int, tuple[Any, BaseException | None]] = {}
        left, begun, given = iter(tasks), 0, 0
        team = [
            threading.Thread(target=self._work, args=(function, share), daemon=True)
            for _ in range(self.threads)
        ]
        for thread in team:
            thread.start()
        open_tasks = 0
        try:
            more = True
            while True:
                while more and open_tasks < self.threads and open_tasks + len(done) < self.most:
                    try:
                        task = next(left)
                    except StopIteration:
                        more = False
                        break
                    self._todo.put((begun, task))
                    begun, open_tasks = begun + 1, open_tasks + 1
                if given in done:
                    outcome, error = done.pop(given)
                    given += 1
                    if error is not None:
                        raise error
                    yield outcome
                    continue
                if not open_tasks:
                    return
                number, outcome = self._events.get()
                if number is None:
                    outcome()
                else:
                    done[number], open_tasks = outcome, open_tasks - 1
        finally:
            self._dismiss(team)

    def ask(self, call: Callable[[], Any]) -> Any:
        """``call()``, made in the thread that takes the results; True if nothing is wanted."""
        if self.stopping:
            return True
        answer: SimpleQueue[Any] = SimpleQueue()

        def answered() -> None:
            try:
                answer.put(self.stopping or call())
            except BaseException:
                answer.put(True)  # the worker stops; the error is that of the fit
                raise

        self._events.put((None, answered))
        return answer.get()

    def _work(self, function: Callable[..., object], share: int) -> None:
        with _threads.at_most(share):
            while (item := self._todo.get()) is not None:
                number, task = item
                try:
                    self._events.put((number, (function(*task), None)))
                except BaseException as error:
                    self._events.put((number, (None, error)))

    def _dismiss(self, team: list[threading.Thread]) -> None:
        """Stop what is being worked on, and wait for the threads: they read the caller's arrays."""
        self.stopping = True
        for _ in team:
            self._todo.put(None)
        interrupt: BaseException | None = None
        while any(thread.is_alive() for thread in team):
            try:
                while not self._events.empty():
                    number, outcome = self._events.get()
                    if number is None:
                        outcome()  # answers True, since nothing is wanted
                for thread in team:
                    thread.join(timeout=0.002)
            except KeyboardInterrupt as error:  # wait all the same, and tell of it then
                interrupt = error
        if interrupt is not None:
            raise interrupt


class SearchReports(Reports):
    """Reports from the threads of a search: what they tell the callbacks goes through ``workers``.

    Nothing else is reported from there: the search itself prints its candidates.
    """

    def __init__(self, reports: Reports, workers: Workers) -> None:
        super().__init__(reports.name, verbose=0)
        self.outer, self.workers = reports, workers

    def on_iteration(
        self, searching: bool = True, path: tuple[str | int, ...] = ()
    ) -> Callable[..., bool]:
        """As `Reports.on_iteration`; it also stops what is no longer wanted."""
        report, workers = self.outer.on_iteration(searching=True), self.workers
        root = self.outer.report
        if root is None or not root.has_callbacks:
            return lambda info, problem, snapshot: workers.stopping

        def ask(info: Iteration, problem: Problem, snapshot: RunSnapshot | None) -> bool:
            return bool(workers.ask(lambda: report(info, problem, snapshot)))

        return ask
