"""Queues that lend each other amounts, while windows and other configurations change what they have."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from remuda_core.state import Partition, State
from remuda_proto.remuda.v1 import inbox_pb2

from .auditor import Auditor
from .cluster import Cluster
from .operator import Operator
from .resource_manager import Rm
from .story import Story

LENDS = 0.5  # how often the operator lends or ends a loan, in place of what others do
# Lender, borrower, whether it is about the guarantee.
LOANS = (
    ("root.a", "root.b", False), ("root.a", "root.c.d", False), ("root.b", "root.a", False),
    ("root.c.d", "root.b", False), ("root.a", "root.b", True), ("root.b", "root.a", True),
)  # fmt: skip
# All loans are over when the work of a simulation is.
LASTS_S = (1.0, 8.0)
# For some seconds two queues have other maxima, while loans begin and end (`resource_manager.CALENDAR` says when that
# is). Use above a maximum is given back at once.
CONFIGURATION = """
partitions:
- name: default
  preemption: {quotapreemptionenabled: true}
  calendar:
  - name: rush
    start: 2023-11-14 22:30:08
    duration: 9s
    settings: {root.a: {resources: {max: {vcore: 7}}}, root.b: {resources: {max: {vcore: 10}}}}
  queues:
  - name: root
    properties: {quota.preemption.delay: 500ms}
    submitacl: "*"
    adminacl: ops
    queues:
    - {name: a, resources: {guaranteed: {vcore: 4}, max: {vcore: 12}}}
    - {name: b, resources: {guaranteed: {vcore: 2}, max: {vcore: 9}}}
    - {name: c, parent: true, queues: [{name: d, resources: {max: {vcore: 6}}}]}
"""
LENDING_CONFIGURATIONS = (CONFIGURATION, CONFIGURATION.replace("max: {vcore: 12}", "max: {vcore: 8}"))


class LendingRm(Rm):
    VCORE = 1_000  # so that maxima are in the way

    def __init__(self, rm_id: str, random: Random, story: Story, neighbours: list[Cluster]) -> None:
        super().__init__(rm_id, random, story, neighbours)
        self.CONFIGURATION, self.CONFIGURATIONS = LENDING_CONFIGURATIONS[0], LENDING_CONFIGURATIONS


class LendingOperator(Operator):
    def __init__(self, random: Random, story: Story, auditors: Sequence[Auditor]) -> None:
        super().__init__(random, story, auditors)
        self._pace_s = min(self._pace_s, 1.0)

    def _choose(self, state: State, partition: Partition) -> inbox_pb2.Administer | None:
        random = self._random
        if self.resting or random.random() > LENDS:
            return super()._choose(state, partition)
        loans = [key for key in state.loans if key.partition == partition.name]
        if loans and random.random() < 0.3:
            ended = random.choice(loans)
            return inbox_pb2.Administer(end_loan=inbox_pb2.EndLoan(queue=ended.lender, borrower=ended.borrower))
        lender, borrower, guaranteed = random.choice(LOANS)
        lent = inbox_pb2.LendQuota(
            queue=lender,
            borrower=borrower,
            amounts={"vcore": random.choice((1_000, 2_000, 5_000))},
            guaranteed=guaranteed,
            until_ms=state.now_ms + int(1_000 * random.uniform(*LASTS_S)),
        )
        return inbox_pb2.Administer(lend_quota=lent)
