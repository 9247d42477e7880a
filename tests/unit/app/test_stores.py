"""The store's URL as people are shown it."""

from __future__ import annotations

import pytest

from outlast.app.stores import shown_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///a:b@c.db", "sqlite:///a:b@c.db"),
        ("files:///folder", "files:///folder"),
        ("postgresql://me@db/sessions", "postgresql://me@db/sessions"),
        ("postgresql://me:s3cret@db/sessions", "postgresql://me:***@db/sessions"),
        ("postgresql://me@db/sessions?password=s3cret", "postgresql://me@db/sessions?password=***"),
    ],
)
def test_no_password_is_shown_wherever_it_stands(url: str, shown: str) -> None:
    assert shown_url(url) == shown
