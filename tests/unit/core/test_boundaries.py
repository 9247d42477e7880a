"""Boundaries move the view and can be taken back; the journal that makes that possible stays short."""

from hypothesis import given
from hypothesis import strategies as st

from outlast.core.boundaries import (
    HIDDEN_LENGTH,
    JOURNAL_LENGTH,
    Boundary,
    BoundaryKind,
    BoundaryView,
    Span,
    journal_with,
    view_of,
)

START = BoundaryView()


def drawn(*boundaries: Boundary) -> BoundaryView:
    return view_of(START, boundaries)


def compacted(seq: int, kept: int) -> Boundary:
    return Boundary(seq, BoundaryKind.COMPACTED, kept)


def cleared(seq: int) -> Boundary:
    return Boundary(seq, BoundaryKind.CLEARED)


def rewound(seq: int, to: int) -> Boundary:
    return Boundary(seq, BoundaryKind.REWOUND, to)


def uncompacted(seq: int, what: int) -> Boundary:
    return Boundary(seq, BoundaryKind.UNCOMPACTED, what)


def unrewound(seq: int, what: int) -> Boundary:
    return Boundary(seq, BoundaryKind.UNREWOUND, what)


@st.composite
def journals(draw: st.DrawFn) -> list[Boundary]:
    """Boundaries at every tenth event, aiming anywhere before."""
    kinds = draw(st.lists(st.sampled_from(BoundaryKind), max_size=20))
    return [
        Boundary(seq, what, draw(st.integers(0, seq) | st.integers(0, len(kinds)).map(lambda n: n * 10)))
        for seq, what in zip(range(10, 1000, 10), kinds, strict=False)
    ]


def test_without_boundaries_everything_is_seen() -> None:
    assert (START.window_from, START.read_from) == (1, 1)
    assert not START.archives(1)


def test_a_compaction_moves_the_window_and_archives_nothing() -> None:
    view = drawn(compacted(100, 80))
    assert (view.window_from, view.compacted_at) == (80, 100)
    assert not view.archives(1)


def test_clearing_archives_all_before_and_forgets_the_compaction() -> None:
    view = drawn(compacted(100, 80), cleared(120))
    assert (view.window_from, view.compacted_at) == (121, 0)
    assert view.archives(119)
    assert not view.archives(121)


def test_undoing_the_second_compaction_brings_the_first_one_back() -> None:
    assert drawn(compacted(100, 80), compacted(200, 180), uncompacted(210, 200)) == drawn(compacted(100, 80))
    assert drawn(compacted(100, 80), compacted(200, 180), uncompacted(210, 200), uncompacted(220, 100)) == START


def test_rewinding_to_before_a_compaction_takes_the_compaction_back() -> None:
    view = drawn(compacted(100, 80), rewound(120, 90))
    assert (view.window_from, view.compacted_at, view.hidden) == (1, 0, (Span(91, 120),))


def test_rewinding_to_before_a_clear_takes_the_clear_back() -> None:
    view = drawn(cleared(100), rewound(120, 90))
    assert (view.cleared_at, view.archives(90), view.archives(91)) == (0, False, True)


def test_a_compaction_that_a_rewind_kept_can_still_be_undone() -> None:
    view = drawn(compacted(100, 80), rewound(200, 150), uncompacted(210, 100))
    assert (view.window_from, view.hidden) == (1, (Span(151, 200),))


def test_rewinding_again_to_further_back_hides_it_all() -> None:
    assert drawn(rewound(100, 80), rewound(110, 50)).hidden == (Span(51, 110),)


def test_undoing_an_outer_rewind_leaves_the_inner_one() -> None:
    assert drawn(rewound(100, 80), rewound(110, 50), unrewound(120, 110)) == drawn(rewound(100, 80))


def test_undoing_something_that_never_was_changes_nothing() -> None:
    assert drawn(compacted(100, 80), uncompacted(110, 99), unrewound(120, 100)) == drawn(compacted(100, 80))


@given(journals())
def test_undoing_the_last_rewind_or_compaction_restores_the_view(journal: list[Boundary]) -> None:
    last = journal[-1].seq if journal else 0
    before = drawn(*journal)
    assert drawn(*journal, rewound(last + 10, last // 2), unrewound(last + 20, last + 10)) == before
    assert drawn(*journal, compacted(last + 10, last // 2), uncompacted(last + 20, last + 10)) == before


@given(journals(), st.integers(0, 210))
def test_a_rewind_shows_what_was_seen_then(journal: list[Boundary], to: int) -> None:
    then = drawn(*(boundary for boundary in journal if boundary.seq <= to))
    now = drawn(*journal, rewound(1000, to))
    assert (now.cleared_at, now.compacted_at, now.first_kept) == (then.cleared_at, then.compacted_at, then.first_kept)
    assert [now.archives(seq) for seq in range(1, to + 1)] == [then.archives(seq) for seq in range(1, to + 1)]
    assert all(now.archives(seq) for seq in range(to + 1, 1001))


@given(journals())
def test_a_view_never_reads_from_after_its_window(journal: list[Boundary]) -> None:
    view = drawn(*journal)
    assert view.read_from <= view.window_from
    assert list(view.hidden) == sorted(view.hidden, key=lambda span: span.first)


def test_the_journal_stays_short_and_the_view_the_same() -> None:
    start, journal, everything = START, list[Boundary](), list[Boundary]()
    for seq in range(10, 20_000, 10):
        boundary = rewound(seq, seq - 3) if seq % 100 else compacted(seq, seq - 5)
        start, journal = journal_with(start, journal, boundary)
        everything.append(boundary)
    assert len(journal) == JOURNAL_LENGTH
    view, exact = view_of(start, journal), view_of(START, everything)
    assert (view.window_from, view.compacted_at) == (exact.window_from, exact.compacted_at)
    assert view.hidden == exact.hidden
    assert len(view.hidden) == HIDDEN_LENGTH


def test_what_left_the_journal_can_still_be_undone_as_long_as_it_is_in_force() -> None:
    start = view_of(START, [compacted(10, 5), rewound(20, 15)])
    assert view_of(start, [uncompacted(30, 10)]).window_from == 1
    assert view_of(start, [unrewound(30, 20)]).hidden == ()
    assert view_of(start, [rewound(30, 8)]) == BoundaryView(hidden=(Span(9, 30),))


def test_a_rewind_to_before_an_old_compaction_takes_the_compaction_back() -> None:
    start = BoundaryView(compacted_at=50, summary_at=50, first_kept=40, pruned_upto=30)
    view = view_of(start, [rewound(80, 45)])
    assert (view.compacted_at, view.summary_at, view.pruned_upto) == (0, 0, 0)
    assert view.hides(60)
    assert view_of(start, [rewound(80, 60)]).compacted_at == 50


def test_a_rewind_to_its_own_event_or_later_hides_nothing() -> None:
    assert drawn(rewound(50, 50)).hidden == ()
