"""A change of a namespace's quota is in force at once. Pure.

The scheduler takes quotas from the tags of an application that is submitted. So for each queue in which the namespace
has applications, one without pods is submitted, a *carrier*, and withdrawn again.
"""

from __future__ import annotations

from typing import Final

from remuda_kubernetes.api.objects import Namespace
from remuda_kubernetes.shim import messages, pod_reading
from remuda_kubernetes.shim.books import ApplicationEntry, Books
from remuda_kubernetes.shim.effects import RecordEvent, Submit, Withdraw, name_of
from remuda_kubernetes.shim.namespaces import read_tags
from remuda_proto.si.v1 import si_pb2 as si

CARRIER: Final = ".:quota-"  # in an application ID, after its namespace


class Quotas:
    def __init__(self, books: Books) -> None:
        self._books = books
        self._carriers: dict[str, str] = {}  # application ID -> namespace, until the scheduler has answered

    def changed(self, namespace: Namespace) -> None:
        """Note the namespace. Wrong annotations are refused: what was in force before stays so, and an event tells."""
        name, is_new = namespace.metadata.name, namespace.metadata.name not in self._books.namespaces
        self._books.namespaces[name] = namespace
        tags, wrong = read_tags(namespace)
        for one in wrong.values():
            self._reject(namespace, one)
        before = self._books.quota_tags.get(name, {})
        after = {**{tag: value for tag, value in before.items() if tag in wrong}, **tags}
        self._books.quota_tags[name] = after
        if not is_new and before != after:
            self._send(name)

    def gone(self, namespace: Namespace) -> None:
        self._books.namespaces.pop(namespace.metadata.name, None)
        self._books.quota_tags.pop(namespace.metadata.name, None)

    def send_all(self) -> None:
        """Quotas may have changed while no front end ran."""
        for name, tags in self._books.quota_tags.items():
            if tags:
                self._send(name)

    def _send(self, namespace: str) -> None:
        books = self._books
        if not books.is_live:
            return
        version = books.namespaces[namespace].metadata.resource_version
        for index, like in enumerate(self._one_of_each_place(namespace)):
            name = f"{namespace}{CARRIER}{version}-{index}"
            self._carriers[name] = namespace
            books.emit(Submit(messages.quota_carrier(books, like, name)))
            books.emit(Withdraw(name))

    def _one_of_each_place(self, namespace: str) -> list[ApplicationEntry]:
        """Applications of one queue and one user are placed in one queue."""
        found: dict[tuple[object, ...], ApplicationEntry] = {}
        for entry in self._books.applications.values():
            if entry.namespace == namespace and entry.is_submitted and entry.pods:
                originator = self._books.pods[entry.originator].pod
                found.setdefault((entry.queue, *pod_reading.user_of(originator)), entry)
        return list(found.values())

    def answered(self, response: si.ApplicationResponse) -> None:
        for accepted in response.accepted:
            self._carriers.pop(accepted.applicationID, None)
        for rejected in response.rejected:
            namespace = self._books.namespaces.get(self._carriers.pop(rejected.applicationID, ""))
            if namespace is not None:
                self._reject(namespace, rejected.reason)

    def _reject(self, namespace: Namespace, why: str) -> None:
        self._books.emit(
            RecordEvent("Namespace", name_of(namespace.metadata), "InvalidQuota", "Scheduling", why, is_warning=True)
        )


def is_carrier(application_id: str) -> bool:
    return CARRIER in application_id
