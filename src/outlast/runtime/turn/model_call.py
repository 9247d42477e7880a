"""Whether and when a model is asked again. The only place that does: the SDKs underneath never retry.

Asking the model: attempts, each opened and closed in the log, and the one place that asks again.

`ModelRequested` is durable before the model is asked. Whatever happens then, the attempt is closed by exactly one of
`AssistantReplied` and `ReplyInterrupted`: the caller writes the former together with what follows from it, everything
else is closed here.
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
    """Seconds to wait after this failed attempt (counted from 1); None when it was the last one.

    What the provider asks for is honoured up to a minute: one that wants longer is not asked again in this turn.
    Otherwise the wait doubles, with full jitter, so that many agents do not come back at the same moment.
    """
    if attempt >= MAX_ATTEMPTS:
        return None
    if error.retry_after is not None:
        return None if error.retry_after > LONGEST_WAIT else max(0.0, error.retry_after)
    most = min(LONGEST_WAIT, FIRST_WAIT * 2 ** (attempt - 1))
    return most * (0.5 + chance / 2)


BROKE_OFF = "the reply broke off before it was complete"


class ModelCaller:
    """The attempts at one reply. `partial` is what there is of the open one, for whoever has to close it."""

    def __init__(self, driver: Driver, model: Model, observer: TurnObserver) -> None:
        self.driver = driver
        self.model = model
        self._observer = observer
        self._draft: ReplyDraft | None = None

    @property
    def partial(self) -> tuple[Part, ...]:
        return self._draft.parts() if self._draft is not None else ()

    def requested(self, request: ModelRequest, digest: str | None = None, tokens: int | None = None) -> ModelRequested:
        """The event that opens the next attempt."""
        turn = self.driver.state.turn
        number = (turn.attempts if turn is not None else 0) + 1
        return ModelRequested(model=self.model.name, attempt=number, window_digest=digest, input_tokens_estimate=tokens)

    async def reply(self, request: ModelRequest) -> Finished:
        """The reply to an attempt that is open; asks again as `retries` allows. The attempt is still open on return.

        `ModelError` when there is no answer: then every attempt is closed.
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
        """Close the attempt; the seconds to wait before the next, None when there is none."""
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
