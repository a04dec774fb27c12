"""Follows the ConfigMaps of the configuration. A map that cannot be read is reported, and counts as it was before."""

from __future__ import annotations

from collections.abc import Callable

from remuda_kubernetes.api.objects import ConfigMap
from remuda_kubernetes.shim.config_maps import MapsConfiguration, configuration_of, values_of
from remuda_kubernetes.shim.effects import RecordEvent, name_of

Record = Callable[[RecordEvent], None]


class WatchedMaps:
    """`names`: of the maps, the last on top. `on_change`: called when `configuration` is another one."""

    def __init__(self, names: tuple[str, ...], record: Record, on_change: Callable[[], None]) -> None:
        self._names = names
        self._record = record
        self._on_change = on_change
        self._maps: dict[str, ConfigMap] = {}
        self._values: dict[str, dict[str, str]] = {}
        self._newest = ""  # the map that was changed last
        self.configuration = MapsConfiguration()

    def changed(self, of: ConfigMap) -> None:
        name = of.metadata.name
        if name not in self._names:
            return
        self._maps[name], self._newest = of, name
        try:
            self._values[name] = values_of(of)
        except ValueError as error:
            self.rejected(str(error))
            return
        self._take()

    def gone(self, of: ConfigMap) -> None:
        if self._maps.pop(of.metadata.name, None) is not None:
            self._values.pop(of.metadata.name, None)
            self._take()

    def _take(self) -> None:
        try:
            configuration = configuration_of(self._values[name] for name in self._names if name in self._values)
        except ValueError as error:
            self.rejected(str(error))
            return
        if configuration != self.configuration:
            self.configuration = configuration
            self._on_change()

    def rejected(self, reason: str) -> None:
        """The newest change has no effect: what was valid before stays."""
        of = self._maps.get(self._newest)
        if of is not None:
            note = f"the configuration stays as it was: {reason}"
            event = RecordEvent("ConfigMap", name_of(of.metadata), "ConfigurationRejected", "Configuration", note, True)
            self._record(event)
