"""The state of a run and its attempts, derived from the events of the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tui_workbench.core.causes import Causes, of_attempt, read_causes, text_of
from tui_workbench.core.json_values import read_as
from tui_workbench.core.model import RunState
from tui_workbench.core.moments import Moment, moment_of

ATTEMPT = "attempt"  # event: the script is executed again
DUE = "due"  # in an ATTEMPT event of `Retry`: when the controller starts the script
RESET = "reset"  # step: the target is ready for the next attempt
STARTING = {RESET, "start"}  # steps that each attempt of `Retry` repeats
RAN = "ran"  # event: `start` and `end` of the script of the current attempt, as its machine has recorded
END_OF_TIME = 1e12  # seconds since the epoch; later times are invalid
LIMIT = "limit"  # event: the script was warned of its time limit, or with `reached` has reached the limit


class Ending(NamedTuple):
    """The end of a run on its target, which is known before the files are fetched."""

    state: str
    causes: Causes = ()
    exit_code: int | None = None
    end: float = 0.0
    error_code: int = 0  # exit code of the error that prevented the start of the script, or 0
    retry: str | None = None  # see Outcome

    @property
    def reason(self) -> str:
        return text_of(self.causes)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the event of the ending."""
        values = self._asdict()
        values["cause"] = values.pop("retry")  # the name that earlier versions read
        return values


class Attempt(NamedTuple):
    """Another execution of the script, after the first."""

    number: int  # 2 or more
    start: int  # size of the log in bytes at the start of this attempt
    causes: Causes = ()  # why the previous attempt ended
    due: float = 0.0  # when `Retry` starts it, in seconds since the epoch; 0 if the target has started it
    exit_code: int | None = None  # of the previous attempt
    state: str = RunState.FAILED  # of the previous attempt at its end
    ended: float = 0.0  # when the previous attempt ended; 0 if unknown
    anew: bool = False  # True if the run had ended, so that its target must be prepared again

    @classmethod
    def from_event(cls, event: Mapping[str, Any]) -> Attempt | None:
        """Return the attempt of an ATTEMPT event, or None if the event is malformed."""
        try:
            attempt = read_as(cls, {**event, "causes": ()})
            return attempt._replace(causes=read_causes(event, attempt.exit_code))
        except ValueError:
            return None

    @property
    def reason(self) -> str:
        return text_of(self.causes)

    @property
    def note(self) -> Causes:
        """The number of the attempt, and why it was necessary."""
        return of_attempt(self.number, self.causes)


class Status(NamedTuple):
    """The state of a run, derived from its events."""

    state: str = RunState.QUEUED
    causes: Causes = ()
    exit_code: int | None = None
    start: float = 0.0
    end: float = 0.0  # 0.0 until the final state; later events do not count
    done: frozenset[str] = frozenset()  # names of completed steps
    begun: frozenset[str] = frozenset()  # names of started steps, completed or not
    ending: Ending | None = None
    error_code: int = 0  # see Ending
    begin: Moment | None = None  # the start, to measure durations even if the clock is changed
    attempt_begin: Moment | None = None  # the start of the current attempt; a scheduler's restart does not change it
    limit: Causes = ()  # why the time limit ends the current attempt; set from the warning on
    limit_is_reached: bool = False
    began: float = 0.0  # when the script of the current attempt began, as its machine has recorded; 0.0 if unknown
    ended: float = 0.0  # when it ended, as its machine has recorded; 0.0 if unknown
    since: float = 0.0  # when the previous attempt ended; for the first attempt, the time of the first event
    attempts: int = 1  # number of attempts that have begun

    @property
    def reason(self) -> str:
        return text_of(self.causes)

    @property
    def lacks_outputs(self) -> bool:
        """True if the run has ended and some of its files are still on its target."""
        return bool(self.end) and self.has_files and "fetch" in self.begun - self.done

    @property
    def has_files(self) -> bool:
        """True if the target may have files of the script: it starts only after the step `prepare` is done."""
        return "prepare" in self.done


def status_of(events: Iterable[Mapping[str, Any]]) -> Status:
    """Return the state of a run with these events."""
    status = Status()
    done: set[str] = set()
    begun: set[str] = set()
    for event in events:
        kind = event["event"]
        status = status._replace(since=status.since or _time(event.get("time")))
        if kind == "state" and not status.end:
            status = _after_state(status, event)
        elif kind == RAN and not status.end:
            status = _after_ran(status, event)
        elif kind == "step":
            begun.add(str(event.get("step")))
            if event.get("status") == "done":
                done.add(str(event.get("step")))
        elif kind == ATTEMPT:
            if event.get(DUE):
                done -= STARTING
                if event.get("anew"):
                    done, begun, status = set(), set(), Status(start=status.start, begin=status.begin)
                status = status._replace(attempt_begin=None, limit=(), limit_is_reached=False)
            since = _time(event.get("ended")) or status.ended or status.since
            status = status._replace(began=0.0, ended=0.0, since=since, attempts=status.attempts + 1)
        elif kind == LIMIT:
            status = status._replace(limit=read_causes(event), limit_is_reached="reached" in event)
        elif kind == "ending":
            status = status._replace(ending=_ending(event) or status.ending)
    return status._replace(done=frozenset(done), begun=frozenset(begun))


def _after_state(status: Status, event: Mapping[str, Any]) -> Status:
    """Return the status after a state event."""
    state, code = event.get("state"), event.get("exit_code", status.exit_code)
    moment = moment_of(event)
    end = event.get("end", event.get("time", 0.0)) if event.get("final") else 0.0
    if state is None or moment is None:
        return status
    if state == RunState.RUNNING:
        moment = moment.at(status.began) if status.began else moment
        status = status._replace(attempt_begin=status.attempt_begin or moment)
        if not status.start:
            status = status._replace(start=moment.time, begin=moment)
    causes = read_causes(event, code)
    return status._replace(state=state, causes=causes, exit_code=code, end=end, error_code=event.get("error_code", 0))


def _after_ran(status: Status, event: Mapping[str, Any]) -> Status:
    """Return the status after a RAN event. The machine's own times replace those at which its state was seen."""
    began, ended = times_of(event)
    status = status._replace(began=began or status.began, ended=ended or status.ended)
    if not began or status.attempts > 1:
        return status
    return status._replace(
        start=began if status.start else 0.0,
        begin=status.begin and status.begin.at(began),
        attempt_begin=status.attempt_begin and status.attempt_begin.at(began),
    )


def times_of(event: Mapping[str, Any]) -> tuple[float, float]:
    """Return the start and the end of the script in a RAN event; 0.0 if unknown."""
    return _time(event.get("start")), _time(event.get("end"))


def _time(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 < value < END_OF_TIME else 0.0


def _ending(event: Mapping[str, Any]) -> Ending | None:
    try:
        ending = read_as(Ending, {**event, "causes": (), "retry": event.get("cause")})
        return ending._replace(causes=read_causes(event, ending.exit_code))
    except ValueError:
        return None
