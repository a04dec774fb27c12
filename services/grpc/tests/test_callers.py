"""Which operator a certificate is, and what its owner may read."""

import pytest
from pydantic import ValidationError

from remuda_grpc.callers import Callers
from remuda_grpc.identity import Clients
from remuda_grpc.settings import GrpcSettings
from remuda_grpc.status import Failure
from remuda_operations.operators import Operator, certified_in
from remuda_operations.system_user import local_operator

LOCAL = Operator("me")


def callers(required: bool = True, local: Operator | None = LOCAL) -> Callers:
    return Callers(Clients(required, ("team=team-*",)), ("laptop=ann@example.com+ops+dev", "desk=bob"), local)


def test_an_entry_names_certificate_operator_and_groups():
    assert certified_in("laptop=ann@example.com+ops+dev+ops") == ("laptop", Operator("ann@example.com", ("ops", "dev")))
    assert certified_in("desk=bob") == ("desk", Operator("bob"))


@pytest.mark.parametrize("entry", ["", "laptop", "laptop=", "=bob", "laptop=b ob", "laptop=bob+", "laptop=bob+a b"])
def test_wrong_entries_are_refused(entry):
    with pytest.raises(ValidationError, match="grpc.operators|expected"):
        GrpcSettings(operators=(entry,))


def test_a_listed_certificate_is_an_operator():
    caller = callers().of(frozenset({"laptop", "other"}))
    assert caller.operator == Operator("ann@example.com", ("ops", "dev")) and caller.reads_all


def test_a_certificate_of_several_operators_is_none():
    with pytest.raises(Failure, match="several operators: ann@example.com, bob"):
        callers().of(frozenset({"laptop", "desk"}))


def test_other_certificates_read_about_their_rms():
    caller = callers().of(frozenset({"team"}))
    assert caller.operator is None and not caller.reads_all
    assert [rm for rm in ("team-a", "team", "rm-1", "") if caller.reads_rm(rm)] == ["team-a"]
    assert not callers().of(frozenset()).reads_rm("rm-1")


@pytest.mark.parametrize("local", [LOCAL, None])
def test_without_certificates_there_is_one_operator_or_none(local):
    caller = callers(required=False, local=local).of(frozenset({"laptop"}))
    assert caller.operator == local and caller.reads_all


def test_where_the_bus_has_keys_no_client_is_an_operator_without_a_certificate(tmp_path):
    """Also where `remuda.yaml` names the key, and not the environment."""
    seed = tmp_path / "seed"
    seed.write_text("SU")
    for settings, is_one in (
        (GrpcSettings(host="127.0.0.1"), True),
        (GrpcSettings(host="127.0.0.1", nats_seed=seed), False),
        (GrpcSettings(host="0.0.0.0", open=True), False),
    ):
        assert (local_operator(settings.host, settings.nats_seed is not None) is not None) is is_one
