import pytest

from remuda_rmproxy.records.partitions import ForeignPartition, PlainNames, SchedulerNames, scheduler_name


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("", "[rm-1]default"),
        ("  ", "[rm-1]default"),
        ("Default", "[rm-1]default"),
        (" GPU ", "[rm-1]gpu"),
        ("[rm-1]default", "[rm-1]default"),
        ("[rm-1]GPU", "[rm-1]GPU"),
    ],
)
def test_what_an_rm_writes_becomes_the_schedulers_name(written: str, name: str) -> None:
    assert scheduler_name("rm-1", written) == name
    assert SchedulerNames("rm-1")[written] == name


@pytest.mark.parametrize("written", ["[rm-2]default", "[rm-1", "[rm-1]", "[RM-1]default"])
def test_a_prefix_that_is_not_this_rms_is_refused(written: str) -> None:
    with pytest.raises(ForeignPartition, match="expected a plain name"):
        scheduler_name("rm-1", written)


def test_callbacks_have_plain_names() -> None:
    names = PlainNames("rm-1")
    assert (names["[rm-1]default"], names["default"], names["[rm-2]x"]) == ("default", "default", "[rm-2]x")
