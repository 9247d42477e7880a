"""Files come back as they were, unless somebody else changed them: then they are reported and left alone."""

from outlast.core import events as e
from outlast.core.codec import decode, encode
from outlast.core.messages import TextPart
from outlast.runtime.changes.file_change import ABSENT, FileChange, carried_out, decided, digest_of
from outlast.runtime.history.file_restore import changes_in, recorded, steps, undone
from outlast.runtime.tools.files.write_targets import joint_target, target_facts
from outlast.runtime.tools.port import Target
from tests.support.histories import Log


class Disk(dict[str, bytes]):
    """Files in memory."""

    def write(self, path: str, data: bytes) -> None:
        self[path] = data

    def remove(self, path: str) -> None:
        del self[path]


def started(call_id: str, path: str, before: bytes | None, was: str, will_be: str) -> e.ToolCallStarted:
    facts = {"path": path, "before": before}
    return e.ToolCallStarted(
        call_id=call_id, name="write", target_digest_before=was, target_digest_after=will_be, facts=facts
    )


class Work:
    """A session that writes files and says so as `outlast.runtime.turn.tool_calls` does."""

    def __init__(self, **files: bytes) -> None:
        self.disk = Disk(files)
        self.log = Log()
        self.log.add(e.SessionCreated())

    def write(self, path: str, data: bytes, *, dies: str | None = None) -> None:
        """`dies`: "before" or "after" the effect, and so before anybody said how it went."""
        call_id, before = f"c{len(self.log.rows)}", self.disk.get(path)
        self.log.add(started(call_id, path, before, digest_of(before), digest_of(data)))
        if dies != "before":
            self.disk.write(path, data)
        if dies is None:
            self.log.add(e.ToolCallFinished(call_id=call_id, name="write", parts=(TextPart("ok"),)))

    def rewind(self, to_seq: int = 1, *anyway: str) -> list[FileChange]:
        """As `outlast.runtime.history.rewind` does; the files that were left alone."""
        changes = decided(steps(self.log.rows, self.log.state, to_seq, anyway=anyway), self.disk.get)
        encoded = encode(e.Rewound(to_seq=to_seq, files=recorded(changes)))
        event = decode("Rewound", encoded.v, encoded.body, encoded.blobs.__getitem__)
        assert isinstance(event, e.Rewound)
        self.log.add(event)
        assert changes_in(event.files) == sorted(changes, key=lambda change: change.path)
        return carried_out(changes_in(event.files), self.disk.get, self.disk.write, self.disk.remove)

    def unrewind(self) -> list[FileChange]:
        seq, event = self.log.rows[-1][0].seq, self.log.rows[-1][1]
        assert isinstance(event, e.Rewound)
        changes = decided(undone(changes_in(event.files)), self.disk.get)
        self.log.add(e.RewindUndone(rewound_seq=seq))
        return carried_out(changes, self.disk.get, self.disk.write, self.disk.remove)


def test_what_was_written_is_taken_back_and_put_back() -> None:
    work = Work(a=b"one")
    work.write("a", b"two")
    work.write("new", b"made")
    work.write("a", b"three")
    assert work.rewind() == []
    assert work.disk == {"a": b"one"}
    assert work.unrewind() == []
    assert work.disk == {"a": b"three", "new": b"made"}


def test_only_what_came_after_is_taken_back() -> None:
    work = Work(a=b"one")
    work.write("a", b"two")
    here = work.log.state.last_seq
    work.write("a", b"three")
    work.rewind(here)
    assert work.disk == {"a": b"two"}


def test_a_file_that_somebody_changed_since_is_left_alone_and_named() -> None:
    work = Work(a=b"one", b=b"one")
    work.write("a", b"two")
    work.write("b", b"two")
    work.disk["a"] = b"mine"
    assert [(left.path, left.problem) for left in work.rewind()] == [("a", "it has been changed since")]
    assert work.disk == {"a": b"mine", "b": b"one"}


def test_a_file_that_somebody_changed_between_two_writes_is_left_alone_unless_the_user_says_so() -> None:
    work = Work(a=b"one")
    work.write("a", b"two")
    work.disk["a"] = b"formatted"
    work.write("a", b"three")
    [left] = work.rewind()
    assert left.problem == "something else changed it between events 2 and 4"
    assert work.disk == {"a": b"three"}
    work.log.add(e.RewindUndone(rewound_seq=work.log.state.last_seq))
    assert work.rewind(1, "a") == []
    assert work.disk == {"a": b"one"}
    assert work.unrewind() == []
    assert work.disk == {"a": b"three"}


def test_a_file_that_is_as_it_was_needs_nothing() -> None:
    work = Work(a=b"one")
    work.write("a", b"two")
    work.disk["a"] = b"one"
    assert work.rewind() == []
    assert work.disk == {"a": b"one"}


def test_a_write_that_a_crash_left_open_is_taken_back_whether_it_happened_or_not() -> None:
    for dies in ("before", "after"):
        work = Work(a=b"one")
        work.write("a", b"two")
        work.write("a", b"three", dies=dies)
        assert work.rewind() == []
        assert work.disk == {"a": b"one"}


def test_without_a_copy_nothing_is_restored() -> None:
    work = Work()
    work.log.add(started("c", "huge", None, "f" * 64, digest_of(b"x")))
    work.disk["huge"] = b"x"
    [left] = work.rewind()
    assert left.problem == "no copy of what was there is kept"
    assert work.disk == {"huge": b"x"}


def test_what_was_rewound_before_is_not_taken_back_twice() -> None:
    work = Work(a=b"one")
    work.write("a", b"two")
    work.rewind()
    work.write("a", b"other")
    assert work.rewind() == []
    assert work.disk == {"a": b"one"}


def test_carrying_out_may_be_repeated() -> None:
    work = Work(a=b"one")
    work.write("a", b"two")
    work.write("new", b"made")
    changes = decided(steps(work.log.rows, work.log.state, 1), work.disk.get)
    for _ in range(2):
        assert carried_out(changes, work.disk.get, work.disk.write, work.disk.remove) == []
    assert work.disk == {"a": b"one"}
    work.disk["a"] = b"mine"
    [left] = carried_out(changes, work.disk.get, work.disk.write, work.disk.remove)
    assert (left.path, work.disk["a"]) == ("a", b"mine")


def test_a_file_that_cannot_be_read_or_written_does_not_stop_the_others() -> None:
    work = Work(a=b"one", b=b"one")
    work.write("a", b"two")
    work.write("b", b"two")
    plan = steps(work.log.rows, work.log.state, 1)

    def unreadable(path: str) -> bytes | None:
        if path == "a":
            raise PermissionError(13, "Permission denied")
        return work.disk.get(path)

    first, second = decided(plan, unreadable)
    assert (first.problem, second.problem) == ("it cannot be read: Permission denied", None)

    def read_only(path: str, data: bytes) -> None:
        raise OSError(30, "Read-only file system")

    left = carried_out(decided(plan, work.disk.get), work.disk.get, read_only, work.disk.remove)
    assert [one.problem for one in left] == ["it cannot be written: Read-only file system"] * 2


def test_many_large_files_fit_into_one_event() -> None:
    names = [f"f{n}" for n in range(200)]
    work = Work(**{name: bytes([n % 251]) * 60_000 for n, name in enumerate(names)})
    for name in names:
        work.write(name, b"x" * 50_000)
    assert work.rewind() == []
    assert work.disk["f7"] == b"\x07" * 60_000


def test_an_absent_file_has_a_digest_of_its_own() -> None:
    assert digest_of(None) == ABSENT


def patched(work: Work, changes: dict[str, bytes | None], *, stops_after: int | None = None) -> None:
    """A call that changes several files, as apply_patch does; it may die after some of them."""
    files = [
        Target(
            path=path,
            digest_before=digest_of(work.disk.get(path)),
            digest_after=digest_of(data),
            before=work.disk.get(path),
        )
        for path, data in changes.items()
    ]
    target = joint_target(files)
    work.log.add(
        e.ToolCallStarted(
            call_id="p",
            name="apply_patch",
            target_digest_before=target.digest_before,
            target_digest_after=target.digest_after,
            facts=target_facts(target),
        )
    )
    for path, data in list(changes.items())[:stops_after]:
        work.disk.pop(path, None)
        if data is not None:
            work.disk[path] = data
    if stops_after is None:
        work.log.add(e.ToolCallFinished(call_id="p", name="apply_patch", parts=(TextPart("ok"),)))


def test_all_files_of_a_patch_are_taken_back_and_put_back() -> None:
    work = Work(a=b"one", gone=b"old", src=b"moved")
    work.write("a", b"two")
    patched(work, {"a": b"three", "new": b"made", "dst": b"moved", "gone": None, "src": None})
    after = dict(work.disk)
    assert work.rewind() == []
    assert work.disk == {"a": b"one", "gone": b"old", "src": b"moved"}
    assert work.unrewind() == []
    assert work.disk == after


def test_a_patch_that_died_in_the_middle_is_taken_back_wherever_it_stopped() -> None:
    for stops_after in range(4):
        work = Work(a=b"one", gone=b"old")
        patched(work, {"a": b"two", "new": b"made", "gone": None}, stops_after=stops_after)
        assert work.rewind() == []
        assert work.disk == {"a": b"one", "gone": b"old"}


def test_a_file_of_a_patch_that_somebody_changed_since_is_left_alone_and_the_others_come_back() -> None:
    work = Work(a=b"one", b=b"one")
    patched(work, {"a": b"two", "b": b"two"})
    work.disk["a"] = b"mine"
    assert [(left.path, left.problem) for left in work.rewind()] == [("a", "it has been changed since")]
    assert work.disk == {"a": b"mine", "b": b"one"}
