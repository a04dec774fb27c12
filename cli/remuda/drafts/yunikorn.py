"""Apache YuniKorn, all versions to 1.9: a queues.yaml, the ConfigMaps yunikorn-defaults and yunikorn-configs, values of
Helm. The text is changed in place, so that comments, order and spelling stay, and a text of remuda stays what it is.
"""

from __future__ import annotations

import base64
import binascii
import io
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from .. import limits
from .notes import Notes
from .sources import Document, NotReadable, inside, yaml

NAME = "yunikorn"
_CONFIG_MAPS = ("yunikorn-defaults", "yunikorn-configs")  # the second one counts before the first
_POLICY_GROUP = "service.policyGroup"
# Charts before 1.2 had the text of queues.yaml under this key.
_OLD_HELM_KEY = "configuration"
_SORT_POLICIES = ("fifo", "fair", "stateaware", "fair-users")  # the last one is remuda's own

# Keys of the ConfigMaps that remuda's front end for Kubernetes reads itself.
_READ_BY_FRONT_END = {
    "service.placeholderImage", "service.disableGangScheduling", "service.placeholderRunAsUser",
    "service.placeholderRunAsGroup", "service.placeholderFsGroup", "service.volumeBindTimeout",
    "service.enableConfigHotRefresh", "kubernetes.qps", "kubernetes.burst", "log.shim.level", "event.trackingEnabled",
}  # fmt: skip
# Keys that are settings in remuda.yaml. Those of the admission controller are settings of the webhook.
_SETTINGS = {
    "service.clusterId": "kubernetes.rm",
    "log.level": "log.level",
    "admissionController.filtering.processNamespaces": "kubernetes.process_namespaces",
    "admissionController.filtering.bypassNamespaces": "kubernetes.bypass_namespaces",
    "admissionController.filtering.labelNamespaces": "kubernetes.label_namespaces",
    "admissionController.filtering.noLabelNamespaces": "kubernetes.no_label_namespaces",
    "admissionController.filtering.generateUniqueAppId": "kubernetes.generate_unique_app_id",
    "admissionController.accessControl.bypassAuth": "kubernetes.bypass_auth",
    "admissionController.accessControl.trustControllers": "kubernetes.trust_controllers",
    "admissionController.accessControl.systemUsers": "kubernetes.system_users",
    "admissionController.accessControl.externalUsers": "kubernetes.external_users",
    "admissionController.accessControl.externalGroups": "kubernetes.external_groups",
}
# Keys under which tools that install charts hold values as a text: Argo CD, K3s.
_VALUES_AS_TEXT = ("values", "valuesContent")
_DEFAULT_QUEUE = "admissionController.filtering.defaultQueue"
_FOREIGN_KEYS = (
    "service.",
    "log.",
    "health.",
    "kubernetes.",
    "event.",
    "admissionController.",
    "scheduler.",
    "resourceManager.",
)


def recognises(document: Document) -> bool:
    return _is_queues(document.content) or bool(list(_holders(document)))


def translate(documents: list[Document], notes: Notes) -> tuple[CommentedMap, Document]:
    """Returns the configuration that counts, changed for remuda, and the document whose lines it has. Raises
    NotReadable.
    """
    texts = _texts(documents, notes)
    if not texts:
        raise NotReadable(f"{documents[0].file}: the file has no text of queues.yaml")
    *others, document = texts
    for other in others:
        notes.near(
            other.at(other.content), "partitions", "another text of queues.yaml counts before this one",
            f"{document.at(document.content)} is imported.",
        )  # fmt: skip
    draft = document.content
    if not isinstance(draft, CommentedMap):
        raise NotReadable(f"{document.file}:{document.before + 1}: expected a mapping with partitions")
    _Translation(document, notes).queues(draft)
    return draft, document


class HeldText(NamedTuple):
    """A text of queues.yaml inside of another file. `before`: the lines of the file before its first line. `placed`:
    whether its further lines are those of the file, too."""

    key: str
    text: str
    before: int
    placed: bool


def held_text(documents: list[Document]) -> HeldText | None:
    """The text that counts of ConfigMaps and values of Helm; None: there is none, or a document is a queues.yaml.
    Raises NotReadable."""
    held = [] if any(_is_queues(document.content) for document in documents) else _held(documents, Notes())
    if not held:
        return None
    holder, key = held[-1]
    found = _text(holder, key)
    value = holder.settings[key]
    if isinstance(value, CommentedMap):
        written = io.StringIO()
        yaml().dump(value, written)
        return HeldText(key, written.getvalue(), found.before, False)
    return HeldText(key, str(value), found.before, found.placed)


def _is_queues(content: Any) -> bool:
    return isinstance(content, Mapping) and "partitions" in content


@dataclass(frozen=True, slots=True)
class _Holder:
    """A mapping of settings with texts of queues.yaml inside. `rank`: the highest counts."""

    document: Document
    settings: CommentedMap
    rank: int


def _holders(document: Document) -> Iterator[_Holder]:
    content = document.content
    if isinstance(content, CommentedMap) and content.get("kind") == "ConfigMap":
        metadata = content.get("metadata")
        name = str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""
        rank = _CONFIG_MAPS.index(name) if name in _CONFIG_MAPS else len(_CONFIG_MAPS)
        for place, key in enumerate(("data", "binaryData")):
            settings = content.get(key)
            if isinstance(settings, CommentedMap) and (name in _CONFIG_MAPS or _texts_in(settings)):
                yield _Holder(document, settings, 2 * rank + place)
        return
    yield from _helm_values(document, content)


def _helm_values(document: Document, node: Any) -> Iterator[_Holder]:
    """`yunikornDefaults`, or the key of older charts, at any depth: a chart may be part of another one, and its values
    part of an object that installs it (Argo CD, Flux, K3s). Raises NotReadable."""
    if isinstance(node, CommentedMap):
        for key, value in node.items():
            if key == "yunikornDefaults" and isinstance(value, CommentedMap):
                yield _Holder(document, value, 0)
            elif isinstance(value, CommentedMap | CommentedSeq):
                yield from _helm_values(document, value)
            elif key in _VALUES_AS_TEXT and _holds_queues(value):
                values = inside(document, node, key)
                yield from _helm_values(values, values.content)
        if _holds_queues(node.get(_OLD_HELM_KEY)):
            yield _Holder(document, node, 0)
    elif isinstance(node, CommentedSeq):
        for value in node:
            yield from _helm_values(document, value)


def _texts_in(settings: CommentedMap) -> list[str]:
    return [key for key, value in settings.items() if _plain_key(key).endswith(".yaml") and value is not None]


def _holds_queues(value: Any) -> bool:
    return isinstance(value, str) and "partitions" in value


def _plain_key(key: str) -> str:
    return key.removesuffix(".gz")


def _texts(documents: list[Document], notes: Notes) -> list[Document]:
    """The texts of queues.yaml, the one that counts last."""
    plain = [document for document in documents if _is_queues(document.content)]
    return [*plain, *(_text(holder, key) for holder, key in _held(documents, notes))]


def _held(documents: list[Document], notes: Notes) -> list[tuple[_Holder, str]]:
    """The keys of holders that have a text of queues.yaml, the one that counts last."""
    holders = sorted((one for document in documents for one in _holders(document)), key=lambda one: one.rank)
    group = "queues"
    for holder in holders:
        group = str(holder.settings.get(_POLICY_GROUP) or group)
    wanted = (f"{group}.yaml", f"{group}.yaml.gz", _OLD_HELM_KEY)
    held = []
    for holder in holders:
        for key in holder.settings:
            if key in wanted and holder.settings[key] is not None:
                held.append((holder, key))
            else:
                _note_setting(holder, key, wanted[0], notes)
    return held


def _text(holder: _Holder, key: str) -> Document:
    value = holder.settings[key]
    if isinstance(value, CommentedMap):  # values of a chart that takes a mapping
        return Document(holder.document.file, value, holder.document.before, holder.document.placed)
    if not _holds_queues(value):
        holder.settings[key] = _unpacked(holder.document.at(holder.settings, key), str(value), key.endswith(".gz"))
    return inside(holder.document, holder.settings, key)


def _unpacked(place: str, value: str, is_packed: bool) -> str:
    """A text of `binaryData`."""
    try:
        content = base64.b64decode("".join(value.split()), validate=True)
        if is_packed:
            unpacking = zlib.decompressobj(wbits=31)
            content = unpacking.decompress(content, limits.LARGEST_IMPORT_CHARACTERS)
        return content.decode()
    except (binascii.Error, zlib.error, UnicodeDecodeError) as error:
        raise NotReadable(f"{place}: expected a text of queues.yaml, or one in base64: {error}") from None


def _note_setting(holder: _Holder, key: str, wanted: str, notes: Notes) -> None:
    place = holder.document.at(holder.settings, key)
    if _plain_key(key).endswith(".yaml"):
        notes.none(place, key, f"{_POLICY_GROUP} names {wanted}", "Import this text by itself if a system uses it.")
    elif key == _POLICY_GROUP:
        notes.elsewhere(
            place, key, f"it selects {wanted}, which is imported", "Set `kubernetes.policy_group` if clusters differ."
        )
    elif key in _READ_BY_FRONT_END:
        notes.elsewhere(
            place, key, "the front end for Kubernetes reads this key", "Name the ConfigMap in `kubernetes.config_maps`."
        )
    elif key in _SETTINGS:
        what = (
            "a setting of the service processes"
            if key in ("log.level", "service.clusterId")
            else "a setting of the webhook"
        )
        notes.elsewhere(place, key, what, f"Set `{_SETTINGS[key]}` in remuda.yaml.")
    elif key == _DEFAULT_QUEUE:
        notes.elsewhere(
            place, key, "placement rules name the queue of applications without one",
            "End `placementrules` with a rule `fixed` for this queue, or call the queue `root.default`.",
        )  # fmt: skip
    elif key.startswith(_FOREIGN_KEYS):
        notes.none(place, key, "a setting of YuniKorn's own process", "Nothing needs to be done.")


class _Translation:
    """Translates the settings that YuniKorn reads otherwise than remuda. `settle` mends other settings that remuda
    refuses."""

    def __init__(self, document: Document, notes: Notes) -> None:
        self._document = document
        self._notes = notes

    def queues(self, draft: CommentedMap) -> None:
        if draft.pop("checksum", None) is not None:
            self._notes.near(
                self._document.file, "checksum", "it names the text that an update by API was made from",
                "It is left out of the file.",
            )  # fmt: skip
        partitions = draft.get("partitions")
        if not isinstance(partitions, CommentedSeq):
            raise NotReadable(f"{self._document.at(draft, 'partitions')}: partitions: expected a list of partitions")
        for partition in partitions:
            if isinstance(partition, CommentedMap):
                self._partition(partition)

    def _partition(self, partition: CommentedMap) -> None:
        self._resolver(partition)
        if "statedumpfilepath" in partition:
            place = self._document.at(partition, "statedumpfilepath")
            del partition["statedumpfilepath"]
            self._notes.none(
                place, "statedumpfilepath", "state is not dumped to a file", "`remuda dump RM` prints the state."
            )
        rules = partition.get("placementrules")
        for at in reversed(range(len(rules) if isinstance(rules, CommentedSeq) else 0)):
            rule = rules[at]
            if isinstance(rule, Mapping) and str(rule.get("name")).lower() == "test":
                self._notes.none(
                    self._document.at(rule), "rule test", "it never places anything", "The rule is left out."
                )
                del rules[at]
        self._limits(partition)
        for queue in partition.get("queues") or ():
            if isinstance(queue, CommentedMap):
                self._queue(queue)

    def _resolver(self, partition: CommentedMap) -> None:
        if "usergroupresolver" not in partition:
            return
        place = self._document.at(partition, "usergroupresolver")
        resolver = partition.pop("usergroupresolver")
        kind = str(resolver.get("type") or "os").lower() if isinstance(resolver, Mapping) else "os"
        setting = kind if kind in ("os", "ldap") else "os"
        self._notes.elsewhere(
            place, f"usergroupresolver {kind}", "groups of users are a setting of the service processes",
            f"Set `groups.resolver: {setting}` in remuda.yaml"
            + (", and the keys of `groups.ldap`." if setting == "ldap" else "."),
        )  # fmt: skip

    def _limits(self, partition: CommentedMap) -> None:
        """YuniKorn applies limits of a partition to root since 1.5; before, they had no effect."""
        if not isinstance(partition.get("limits"), CommentedSeq) or not partition["limits"]:
            return
        place = self._document.at(partition, "limits")
        root = _root(partition)
        if root is None or root.get("limits"):
            del partition["limits"]
            self._notes.near(
                place, "limits of the partition", "root has limits of its own", "Those of the partition are left out."
            )
            return
        root["limits"] = partition.pop("limits")
        self._notes.near(
            place, "limits of the partition", "remuda has limits of queues only",
            "They are limits of root now, as since YuniKorn 1.5; before 1.5 they had no effect.",
        )  # fmt: skip

    def _queue(self, queue: CommentedMap) -> None:
        for node in (queue, queue.get("childtemplate")):
            properties = node.get("properties") if isinstance(node, Mapping) else None
            if isinstance(properties, CommentedMap):
                self._properties(properties)
        for child in queue.get("queues") or ():
            if isinstance(child, CommentedMap):
                self._queue(child)

    def _properties(self, properties: CommentedMap) -> None:
        delay = "preemption.quota.delay"
        if delay in properties:
            place = self._document.at(properties, delay)
            value = properties.pop(delay)
            properties.setdefault("quota.preemption.delay", value)
            self._notes.near(
                place, delay, "1.8.0 reads this name, all others quota.preemption.delay",
                "It is called quota.preemption.delay.",
            )  # fmt: skip
        policy = "application.sort.policy"
        value = str(properties.get(policy) or "fifo").lower()
        if value not in _SORT_POLICIES:
            self._notes.near(
                self._document.at(properties, policy), f"{policy}: {value}",
                "YuniKorn takes an unknown policy for fifo",
                "It is fifo.",
            )  # fmt: skip
            properties[policy] = "fifo"


def _root(partition: CommentedMap) -> CommentedMap | None:
    """The root queue; one is put around the queues if they have none."""
    queues = partition.get("queues")
    if not isinstance(queues, CommentedSeq):
        return None
    if len(queues) == 1 and isinstance(queues[0], CommentedMap) and str(queues[0].get("name")).lower() == "root":
        return queues[0]
    root = CommentedMap(name="root")
    root["queues"] = queues
    partition["queues"] = CommentedSeq([root])
    return root
