"""A model that repeats itself."""

import pytest

from outlast.workflow.text_signals import is_loop, repeats_within


def test_three_equal_answers_in_a_row_are_a_loop() -> None:
    assert is_loop("I will do it.", ["x", "I will do it", " i will  do it."])
    assert not is_loop("I will do it.", ["I will do it.", "something else", "I will do it."])
    assert not is_loop("I will do it.", ["I will do it."])
    assert not is_loop("", ["", "", ""])


@pytest.mark.parametrize(
    "text",
    [
        "Start.\n" + "I am thinking about it.\n" * 8,
        "Well, " + "let me try that again. " * 6,
        "a1b2c3d4e5f6 " * 10,
    ],
)
def test_one_passage_over_and_over_is_a_loop(text: str) -> None:
    assert repeats_within(text)


@pytest.mark.parametrize(
    "text",
    [
        "A normal answer.\nWith two lines.",
        "- item\n" * 3,
        "\n".join(f"line number {n}" for n in range(200)),
        "-" * 500,
        "}\n" * 50,
        "| a | b |\n" + "|---|---|\n" + "\n".join(f"| {n} | {n * n} |" for n in range(40)),
        "",
    ],
)
def test_honest_texts_are_no_loop(text: str) -> None:
    assert not repeats_within(text)


def test_a_huge_text_is_looked_at_from_its_end() -> None:
    assert repeats_within("prefix " * 3 + "x y z and so on it goes " * 100_000)
