"""Names of partitions in addresses of REST."""

from __future__ import annotations

import pytest

from remuda_web.ws_v1.partitions import place_of, places

PLACES = places({"rm-1": [{"name": "default"}, {"name": "gpu"}], "RM-2": [{"name": "default"}]})


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("gpu", "[rm-1]gpu"),
        ("GPU", "[rm-1]gpu"),
        (" Gpu ", "[rm-1]gpu"),
        ("[rm-1]GPU", "[rm-1]gpu"),
        ("[rm-1]default", "[rm-1]default"),
        ("[RM-2]Default", "[RM-2]default"),
        ("[rm-2]default", None),  # IDs of RMs have a case
        ("default", None),  # several RMs have one
        ("nope", None),
        ("", None),
    ],
)
def test_a_partition_is_found_by_its_name_in_any_case(name: str, found: str | None) -> None:
    place = place_of(name, PLACES)
    assert (place.unique if place is not None else None) == found
