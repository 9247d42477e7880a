"""Model calls: attempts, each opened and closed in the log, and the only retries; the SDKs below never retry.

`ModelRequested` is durable before the request is sent. Exactly one of `AssistantReplied` and `ReplyInterrupted` then
closes the attempt: the caller writes `AssistantReplied` together with its consequences, and this module closes every
failed attempt.
"""

from __future__ import annotations

from outlast.core.errors import ModelError, ModelUnavailable
from outlast.core.events import ModelRequested, ReplyInterrupted
from outlast.core.messages import Part
from outlast.models.port import Finished, Model, ModelRequest
from outlast.runtime.driver import Driver
from outlast.runtime.failpoints import reach
from outlast.runtime.turn.draft import ReplyDraft
from outlast.runtime.turn.observer import TurnObserver

MAX_ATTEMPTS = 5
LONGEST_WAIT = 60.0
FIRST_WAIT = 0.5


def wait_before(attempt: int, error: ModelUnavailable, chance: float) -> float | None:
    """Seconds to wait after this failed attempt (counted from 1); None if there is no further attempt.

    A provider's retry-after is honoured up to a minute; for a longer one there is no retry in this turn. Otherwise the
    wait doubles, with jitter over its upper half, so that many agents do not retry at the same moment.
    """
    if attempt >= MAX_ATTEMPTS:
        return None
    if error.retry_after is not None:
        return None if error.retry_after > LONGEST_WAIT else max(0.0, error.retry_after)
    most = min(LONGEST_WAIT, FIRST_WAIT * 2 ** (attempt - 1))
    return most * (0.5 + chance / 2)


BROKE_OFF = "the reply broke off before it was complete"


class ModelCaller:
    """The attempts at one reply. `partial` holds the parts received in the open attempt, for the code closing it."""

    def __init__(self, driver: Driver, model: Model, observer: TurnObserver) -> None:
        self.driver = driver
        self.model = model
        self._observer = observer
        self._draft: ReplyDraft | None = None

    @property
    def partial(self) -> tuple[Part, ...]:
        return self._draft.parts() if self._draft is not None else ()

    def requested(self, request: ModelRequest, digest: str | None = None, tokens: int | None = None) -> ModelRequested:
        """Build the event that opens the next attempt."""
        turn = self.driver.state.turn
        number = (turn.attempts if turn is not None else 0) + 1
        return ModelRequested(model=self.model.name, attempt=number, window_digest=digest, input_tokens_estimate=tokens)

    async def reply(self, request: ModelRequest) -> Finished:
        """Return the reply to the open attempt, with retries as `wait_before` allows. The attempt stays open on return.

        Raises `ModelError` if there is no reply; every attempt is then closed.
        """
        while True:
            reach("model.asked")
            try:
                return await self._streamed(request)
            except ModelUnavailable as error:
                wait = await self._close(error)
                if wait is None:
                    raise
                await self.driver.clock.sleep(wait)
                await self.driver.write(self.requested(request))
            except ModelError as error:
                await self._close(error)
                raise

    async def _streamed(self, request: ModelRequest) -> Finished:
        seq = self.driver.state.attempt
        assert seq is not None, "an attempt is opened before the model is asked"
        draft = self._draft = ReplyDraft(self.driver, seq)
        stream = self.model.stream(request)
        finished: Finished | None = None
        try:
            async for event in stream:
                if isinstance(event, Finished):
                    finished = event
                    break
                await draft.add(event)
                self._observer.model_event(event)
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
            await draft.stop()
        if finished is None:
            raise ModelUnavailable(BROKE_OFF)
        reach("reply.received")
        return finished

    async def _close(self, error: ModelError) -> float | None:
        """Close the attempt; return the seconds to wait before the next one, None if there is none."""
        state = self.driver.state
        number = state.turn.attempts if state.turn is not None else 1
        wait = None
        if isinstance(error, ModelUnavailable):
            wait = wait_before(max(1, number), error, self.driver.clock.chance())
        if state.attempt is not None:
            await self.driver.write(
                ReplyInterrupted(
                    attempt_seq=state.attempt, parts=self.partial, reason=str(error), model=self.model.name
                )
            )
        self._draft = None
        return wait
