"""The traces of pods that wait: from the watch event, over the ask and the decision, to the binding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from remuda_bus import tracing
from remuda_bus.bus import Headers
from remuda_bus.metrics import exemplar_of
from remuda_kubernetes.api.objects import Pod


class Traces:
    """Each pod has a trace of its own. Empty while traces are off."""

    def __init__(self) -> None:
        self._traces: dict[str, Headers] = {}  # by UID

    def seen(self, pod: Pod) -> None:
        """A watch event. The first one of a pod without a node begins its trace."""
        if not tracing.enabled():
            return
        if pod.spec.node_name or pod.has_ended:
            self._traces.pop(pod.uid, None)
        elif pod.uid not in self._traces:
            with tracing.span("kubernetes.watch", pod=pod.key, uid=pod.uid) as span:
                self._traces[pod.uid] = span.headers()

    def gone(self, pod: Pod) -> None:
        self._traces.pop(pod.uid, None)

    def of(self, uid: str) -> Headers | None:
        return self._traces.get(uid)

    def exported(self, uids: Iterable[str]) -> Mapping[str, Headers]:
        """Those of these pods that are sampled."""
        return {uid: found for uid in uids if (found := self._traces.get(uid)) is not None and exemplar_of(found)}
