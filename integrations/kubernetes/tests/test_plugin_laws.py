"""Laws of plugin mode, for any order of what the API server, the default scheduler and the scheduler report.

To those of the shim: the default scheduler is given a node only for a pod that is booked there.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from integrations.kubernetes.tests.objects import pod
from integrations.kubernetes.tests.test_laws import NODES, Machine
from remuda_kubernetes.plugin.plugin import Approve, Hold, PluginPolicy, PluginShim


class PluginMachine(Machine):
    scheduler = "default-scheduler"
    binding = Approve

    def __init__(self) -> None:
        self.cycles: list[tuple[str, str]] = []  # of the default scheduler: name, node
        super().__init__()

    def made_shim(self) -> PluginShim:
        return PluginShim(
            PluginPolicy(frozenset({"remuda"}), placed_by=frozenset({self.scheduler}), hold=Hold.EXTENDER)
        )

    @rule(data=st.data(), fitting=st.sets(st.sampled_from(NODES), min_size=1))
    def default_scheduler_tries(self, data: st.DataObject, fitting: set[str]) -> None:
        waiting = [name for name, one in self.server.items() if not one.spec.node_name]
        if not waiting:
            return
        name = data.draw(st.sampled_from(waiting))
        assert isinstance(self.shim, PluginShim)
        verdict = self.shim.filter(pod(name, app="app", cpu="1", scheduler=self.scheduler), sorted(fitting))
        self.settle()
        for node in verdict.nodes:
            assert (self.server[name].uid, node) in self.booked.values()
            self.cycles.append((name, node))

    @rule(fails=st.booleans())
    def default_scheduler_binds(self, fails: bool) -> None:
        if not self.cycles:
            return
        name, node = self.cycles.pop(0)
        if name in self.server and self.server[name].uid not in self.bound and not fails:
            self.bind(name, node)

    @rule()
    def time_passes(self) -> None:
        self.shim.sweep()
        self.settle()


TestPluginLaws = PluginMachine.TestCase
