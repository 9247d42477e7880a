"""The bell wakes those whom it concerns, and nobody misses what was rung after he began to listen."""

from __future__ import annotations

import asyncio
import threading

from outlast.store.notify import ChangeNotifier
from outlast.store.postgres.notify import MOST_NAMED, ChangeHint


def never() -> bool:
    return False


async def test_only_those_who_follow_a_session_wake_when_it_is_written_to() -> None:
    notifier = ChangeNotifier(never)
    with notifier.ear("a") as a, notifier.ear("b") as b:
        waits = [asyncio.create_task(ear.wait_async(ear.now(), 5.0)) for ear in (a, b)]
        await asyncio.sleep(0)
        notifier.ring({"b", "c"}, work=False)
        assert await waits[1]
        assert not waits[0].done()
        notifier.ring(work=False)
        assert await waits[0]
    assert not notifier.is_heard
    notifier.close()


async def test_what_was_rung_before_the_wait_ends_it_at_once() -> None:
    notifier = ChangeNotifier(never)
    with notifier.ear("a") as ear:
        since = ear.now()
        notifier.ring({"a"})
        assert await ear.wait_async(since, None)
        assert not await ear.wait_async(ear.now(), 0.01)
    since = notifier.work()
    notifier.ring((), work=True)
    assert await notifier.await_work(since, None)
    notifier.close()


async def test_who_waits_for_work_sleeps_through_everything_else() -> None:
    notifier = ChangeNotifier(never)
    waiting = asyncio.create_task(notifier.await_work(notifier.work(), 5.0))
    await asyncio.sleep(0)
    notifier.ring(work=False)
    await asyncio.sleep(0.01)
    assert not waiting.done()
    notifier.ring((), work=True)
    assert await waiting
    notifier.close()


def test_a_thread_wakes_for_its_session_and_when_the_bell_is_closed() -> None:
    notifier = ChangeNotifier(never)
    heard: list[bool] = []
    with notifier.ear("a") as ear:
        thread = threading.Thread(target=lambda: heard.append(ear.wait(ear.now(), 10)))
        thread.start()
        while not notifier._listeners:
            pass
        notifier.ring({"a"})
        thread.join()
        other = threading.Thread(target=lambda: heard.append(ear.wait(ear.now(), 10)))
        other.start()
        notifier.close()
        other.join()
    assert heard == [True, True]


def test_a_hint_says_as_much_as_fits_and_is_understood_whoever_sent_it() -> None:
    def told(*texts: str) -> tuple[set[str] | None, bool]:
        hint = ChangeHint()
        for text in texts:
            hint.add_text(text)
        return hint.sessions, hint.work

    hint = ChangeHint()
    hint.add({"a", "b"}, work=False)
    assert told(hint.text()) == ({"a", "b"}, False)
    hint.add({"c"}, work=True)
    assert told(hint.text(), "-d") == ({"a", "b", "c", "d"}, True)
    hint.add({f"{number:026d}" for number in range(MOST_NAMED)}, work=False)
    assert told(hint.text()) == (None, True)
    hint.add({"e"}, work=False)
    assert len(hint.text()) < 8_000
    assert told("-*") == (None, False)
    assert told("-a", "w*", "-b") == (None, True)
    assert told("") == (None, True), "an older version says nothing, and means everything"
