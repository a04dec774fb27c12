import pytest

from remuda_bus import subjects
from remuda_bus.bus import Message, Refused
from remuda_proto.remuda.v1 import config_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy.inbound.configuration_resolver import configuration_problems
from remuda_rmproxy.records.correlation import Correlation
from remuda_rmproxy.records.registry import RmRegistry
from remuda_rmproxy.records.rm_record import RmRecord, config_source
from remuda_rmproxy.sessions.registration_request import read_registration


def registration(rm_id: str, subject_of: str | None = None) -> Message:
    payload = si.RegisterResourceManagerRequest(rmID=rm_id).SerializeToString()
    return Message(subjects.register(rm_id if subject_of is None else subject_of), payload)


def test_a_registration_under_its_own_subject_is_read() -> None:
    assert read_registration(registration("rm:1_a-B")).rmID == "rm:1_a-B"


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (registration("rm-1", "rm-2"), "rmID 'rm-1': the subject si.v1.rm.rm-2.register is that of 'rm-2'"),
        (registration("", "rm-2"), "rmID ''"),
        (registration("rm/1", "rm/1"), "rmID 'rm/1': expected 1 to 64 of"),
        (registration("x" * 65, "x" * 65), "expected 1 to 64 of"),
        (Message(subjects.register("rm-1"), b"\xff\xff"), "not a RegisterResourceManagerRequest"),
    ],
)
def test_a_registration_that_is_no_good_is_refused_with_the_reason(message: Message, says: str) -> None:
    with pytest.raises(Refused) as refusal:
        read_registration(message)
    assert refusal.value.code == 400
    assert says in refusal.value.reason


def test_a_record_survives_the_bucket() -> None:
    rm = RmRecord("rm:1", "group", "1.2", "file", "registered")
    assert RmRecord.decode(rm.encode()) == rm


def test_only_what_the_core_has_accepted_is_registered() -> None:
    registry = RmRegistry()
    registry.update("rm-1", RmRecord("rm-1").encode())
    assert list(registry.in_state("registered")) == []
    registry.update("rm-1", RmRecord("rm-1", state="registered").encode())
    assert [one.rm_id for one in registry.in_state("registered")] == ["rm-1"]
    registry.update("rm-1", None)
    assert registry.get("rm-1") is None


def test_a_correlation_comes_back_as_it_went() -> None:
    for correlation in (Correlation("configure", "7", "file", "a:b"), Correlation("register", "ab", "registration")):
        assert Correlation.decode(correlation.encode()) == correlation
    assert Correlation.decode("") is None
    assert Correlation.decode("someone else's") is None


def test_where_a_configuration_comes_from() -> None:
    assert config_source("partitions: []", config_pb2.Configuration()) == "registration"
    assert config_source("", config_pb2.Configuration(source="built-in")) == "built-in"
    assert config_source("", config_pb2.Configuration(source="queues.yaml")) == "file"


def test_a_reason_has_all_problems() -> None:
    problem = config_pb2.ConfigurationProblem
    resolved = config_pb2.ResolvedConfiguration(
        problems=[problem(path="partitions[0].name", line=3, message="empty"), problem(path="queues", message="odd")]
    )
    assert configuration_problems(resolved) == "partitions[0].name (line 3): empty; queues: odd"
