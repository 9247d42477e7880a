"""Model calls: attempts, each opened and closed in the log, and the only retries; the SDKs below never retry.

`ModelRequested` is durable before the request is sent. Exactly one of `AssistantReplied` and `ReplyInterrupted` then
closes the attempt: the caller writes `AssistantReplied` together with its consequences, and this module closes every
failed attempt. How long it retries is decided in `provider_retry`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from outlast.core.errors import ModelError, ModelUnavailable
from outlast.core.events import Event, ModelRequested, ReplyInterrupted, RuntimeStateChanged
from outlast.core.messages import Part
from outlast.models.port import Finished, LoadedModel, ModelEvent, ModelRequest
from outlast.runtime.driver import Driver
from outlast.runtime.failpoints import reach
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.dialect import switch_after
from outlast.runtime.turn.draft import ReplyDraft
from outlast.runtime.turn.observer import NoData, RetryWait, TurnObserver
from outlast.runtime.turn.provider_retry import QUIET_SECONDS, RetryDeadline, StallLimits
from outlast.runtime.turn.recovery import WAITED, WAITED_SECONDS
from outlast.store.port import Receipt

BROKE_OFF = "the reply broke off before it was complete"


class ModelCaller:
    """The attempts at one reply. `partial` holds the parts received in the open attempt, for the code closing it."""

    def __init__(self, driver: Driver, context: TurnContext) -> None:
        assert context.model is not None
        self.driver = driver
        self.context = context
        self.model = context.model
        self._observer = context.observer
        self._limits = StallLimits.of(context.config, context.model)
        self._draft: ReplyDraft | None = None
        self._is_silent = False
        self._marking: asyncio.Future[Receipt] | None = None

    @property
    def partial(self) -> tuple[Part, ...]:
        return self._draft.parts() if self._draft is not None else ()

    def requested(self, request: ModelRequest, digest: str | None = None, tokens: int | None = None) -> ModelRequested:
        """Build the event that opens the next attempt."""
        return ModelRequested(
            model=self.model.name, attempt=self._number() + 1, window_digest=digest, input_tokens_estimate=tokens
        )

    def _number(self) -> int:
        turn = self.driver.state.turn
        return turn.attempts if turn is not None else 0

    async def load(self) -> None:
        """Load the model's SDK. It takes seconds, in which a recorded request would look as if it had been sent."""
        if isinstance(self.model, LoadedModel):
            await self.model.load()

    async def reply(self, request: ModelRequest) -> Finished:
        """Return the reply to the open attempt, with retries as `RetryDeadline` allows. The attempt stays open.

        Raises `ModelError` if there is no reply; every attempt is then closed. A server that refuses tools raises
        `ToolsUnsupported`, after the switch to the text dialect is recorded with the closed attempt.
        """
        deadline = RetryDeadline()
        while True:
            reach("model.asked")
            try:
                return await self._streamed(request)
            except ModelUnavailable as error:
                await self._close(error)
                await self._wait(deadline, error, is_silent=self._is_silent)
                await self.driver.write(*self.driver.driven.news(self.driver.state), self.requested(request))
            except ModelError as error:
                await self._close(error, *switch_after(error, self.driver, self.context))
                raise

    async def _wait(self, deadline: RetryDeadline, error: ModelUnavailable, *, is_silent: bool) -> None:
        """Wait before the next attempt; raises if there is none. A stop of the turn ends the wait at once."""
        clock = self.driver.clock
        now = clock.monotonic()
        if is_silent:
            seconds = deadline.wait_after_silence(error, clock.chance())
        else:
            seconds = deadline.wait_after(error, now, clock.chance())
        self._observer.model_waits(
            RetryWait(
                attempt=self._number() + 1,
                seconds=seconds,
                reason=str(error),
                gives_up_in=deadline.seconds_left(now),
            )
        )
        await clock.sleep(seconds)

    async def _streamed(self, request: ModelRequest) -> Finished:
        seq = self.driver.state.attempt
        assert seq is not None, "an attempt is opened before the model is asked"
        draft = self._draft = ReplyDraft(self.driver, seq)
        self._is_silent = False
        stream = self.model.stream(request)
        finished: Finished | None = None
        try:
            finished = await self._received(stream, draft)
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
            await draft.stop()
        if finished is None:
            raise ModelUnavailable(BROKE_OFF)
        reach("reply.received")
        return finished

    async def _received(self, stream: AsyncIterator[ModelEvent], draft: ReplyDraft) -> Finished | None:
        silence = _Silence(self._limits, self._observer)
        minute = asyncio.get_running_loop().call_later(WAITED_SECONDS, self._mark_waited)
        try:
            async with asyncio.timeout(self._limits.first) as scope:
                async for event in stream:
                    minute.cancel()
                    if isinstance(event, Finished):
                        return event
                    scope.reschedule(silence.broken())
                    await draft.add(event)
                    self._observer.model_event(event)
        except TimeoutError as error:
            self._is_silent = True
            raise ModelUnavailable(f"{self.model.name} sent no data for {silence.limit or 0:.0f} s") from error
        finally:
            silence.stop()
            minute.cancel()
            if self._marking is not None:
                marking, self._marking = self._marking, None
                await asyncio.gather(marking, return_exceptions=True)  # the renewal of the lease reports a lost lease
        return None

    def _mark_waited(self) -> None:
        """Record that this driver has waited a minute for the first byte: its death would count against the turn."""
        waited = RuntimeStateChanged(changes={WAITED: self.driver.state.attempt})
        write = self.driver.write(waited, *self.driver.driven.news(self.driver.state))
        self._marking = asyncio.ensure_future(write)

    async def _close(self, error: ModelError, *also: Event) -> None:
        """Close the attempt, together with the other events."""
        attempt = self.driver.state.attempt
        if attempt is not None:
            closed = ReplyInterrupted(attempt_seq=attempt, parts=self.partial, reason=str(error), model=self.model.name)
            await self.driver.write(closed, *also)
        self._draft = None


class _Silence:
    """Watches for how long a stream sends nothing, and tells the observer from `QUIET_SECONDS` on."""

    def __init__(self, limits: StallLimits, observer: TurnObserver) -> None:
        self.limit: float | None = limits.first
        self._between = limits.between
        self._observer = observer
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self._told = False
        self._quiet = min(QUIET_SECONDS, limits.between / 4)
        self._timer = self._loop.call_later(self._quiet, self._check)

    def broken(self) -> float:
        """Note that data came; return the loop's time at which the stream counts as stalled."""
        self._since, self.limit = self._loop.time(), self._between
        if self._told:
            self._told = False
            self._observer.model_waits(None)
        return self._since + self._between

    def stop(self) -> None:
        self._timer.cancel()

    def _check(self) -> None:
        passed = self._loop.time() - self._since
        if passed >= self._quiet and not self._told:
            self._told = True
            self._observer.model_waits(NoData(seconds=passed, limit=self.limit))
        self._timer = self._loop.call_later(self._quiet if self._told else self._quiet - passed, self._check)
