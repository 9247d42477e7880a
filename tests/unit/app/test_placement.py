"""Places: what is offered, and where a session's project is."""

from __future__ import annotations

from pathlib import Path

import pytest

from outlast import open_store
from outlast.app.placement import Placement, place_for, this_host
from outlast.core.errors import ConfigError, InvalidInput
from outlast.core.header import Header


def header(*, place: str | None = None, project_root: str | None = None) -> Header:
    return Header(session_id="a" * 26, place=place, project_root=project_root)


@pytest.mark.parametrize("word", ["shop", "shop=", "=/tmp", "a b=/tmp", "-x=/tmp", f"{'x' * 65}=/tmp", "shop=/no/such"])
def test_a_place_that_cannot_be_is_refused_in_one_sentence(word: str) -> None:
    with pytest.raises(ConfigError, match="--place"):
        Placement.parse([word])


def test_this_machine_and_every_label_is_offered(tmp_path: Path) -> None:
    places = Placement.parse([f"shop={tmp_path}", "@old=/"])
    assert places.offered == {this_host(), "shop", "@old"}


def test_a_label_has_the_folder_that_was_given_for_it_whatever_the_session_says(tmp_path: Path) -> None:
    places = Placement.parse([f"shop={tmp_path}"])
    assert places.folder(header(place="shop", project_root="/other"), Path("/")) == tmp_path
    with pytest.raises(ConfigError, match="office"):
        places.folder(header(place="office"), Path("/"))


def test_a_session_of_this_machine_or_of_nowhere_is_where_its_project_is(tmp_path: Path) -> None:
    places = Placement()
    for place in (None, this_host()):
        assert places.folder(header(place=place, project_root=str(tmp_path)), Path("/")) == tmp_path
        assert places.folder(header(place=place), tmp_path) == tmp_path
        with pytest.raises(ConfigError, match="not on this machine"):
            places.folder(header(place=place, project_root=str(tmp_path / "gone")), Path("/"))


def test_a_machine_that_is_gone_can_be_stood_in_for(tmp_path: Path) -> None:
    (tmp_path / "srv" / "shop").mkdir(parents=True)
    places = Placement.parse([f"@old={tmp_path}"])
    assert places.folder(header(place="@old", project_root="/srv/shop"), Path("/")) == tmp_path / "srv" / "shop"


def test_only_a_store_that_machines_share_binds_a_session_to_one(tmp_path: Path, pg_url: str) -> None:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as own:
        assert (place_for(own), place_for(own, "shop")) == (None, "shop")
        with pytest.raises(InvalidInput, match="label"):
            place_for(own, "@shop")
    with open_store(pg_url) as shared:
        assert place_for(shared) == this_host()
        assert place_for(shared, here=False) is None
