"""Writes the Helm chart of the front end for Kubernetes from the manifests that kustomize uses.

python -m docs.chart

Its templates have values, the namespace of the release, conditions and VARIABLES, and no other constructs.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

DEPLOY = Path(__file__).parents[1] / "deploy"
FOLDER = DEPLOY / "helm/remuda-kubernetes"
NAMESPACE = "{{ .Release.Namespace }}"
# Template: its manifests, and the condition under which it is rendered.
TEMPLATES = {
    "scheduler-rights.yaml": ("scheduler/rights.yaml", ""),
    "scheduler-flow.yaml": ("scheduler/flow.yaml", ".Values.flowSchema"),
    "scheduler-network.yaml": ("scheduler/network.yaml", ".Values.networkPolicies"),
    "scheduler.yaml": ("scheduler/scheduler.yaml", ""),
    "webhook-rights.yaml": ("webhook/rights.yaml", ".Values.webhook"),
    "webhook-network.yaml": ("webhook/network.yaml", ".Values.networkPolicies"),
    "webhook.yaml": ("webhook/webhook.yaml", ".Values.webhook"),
    "plugin-rights.yaml": ("plugin/rights.yaml", 'eq .Values.mode "plugin"'),
    "plugin-gates.yaml": ("plugin/gates.yaml", ".Values.gatePolicy"),
}
SETTINGS = {"scheduler": "", "webhook": ".Values.webhook"}
REPLACED = {
    "namespace: remuda}": f'namespace: "{NAMESPACE}"}}',
    "namespace: remuda\n": f'namespace: "{NAMESPACE}"\n',
    "image: remuda/kubernetes\n": 'image: "{{ .Values.image }}"\n',
    "system:serviceaccount:remuda:remuda": f"system:serviceaccount:{NAMESPACE}:remuda",
    "web.remuda.svc": f"web.{NAMESPACE}.svc",
}
INSTANCE = """\
            - name: REMUDA_INSTANCE
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
"""
DOMAIN = "            - {name: REMUDA_NATS_DOMAIN, value: remuda}\n"
URL = '            - {name: REMUDA_NATS_URL, value: "{{ .Values.natsUrl }}"}\n'
VARIABLES = """\
            {{- range $name, $value := .Values.environment }}
            - name: {{ $name }}
              value: {{ $value | quote }}
            {{- end }}
"""
ENVIRONMENT = f"""\
            - {{name: REMUDA_KUBERNETES_MODE, value: "{{{{ .Values.mode }}}}"}}
            - {{name: REMUDA_KUBERNETES_OWN_USER, value: "system:serviceaccount:{NAMESPACE}:remuda"}}
{VARIABLES}"""


def templates() -> dict[str, str]:
    """The text of each template, by its name."""
    found = {name: _template(file, condition) for name, (file, condition) in TEMPLATES.items()}
    for name, condition in SETTINGS.items():
        found[f"{name}-settings.yaml"] = _when(condition, _settings(name))
    return found


def _template(file: str, condition: str) -> str:
    text = (DEPLOY / "kubernetes" / file).read_text()
    return _when(condition, _replaced(text).replace(INSTANCE, INSTANCE + ENVIRONMENT).replace(DOMAIN, DOMAIN + URL))


def _settings(name: str) -> str:
    text = _replaced((DEPLOY / f"kubernetes/{name}/remuda.yaml").read_text())
    head = (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings-{name}\n"
        f'  namespace: "{NAMESPACE}"\ndata:\n  remuda.yaml: |\n'
    )
    return head + textwrap.indent(text, "    ")


def _replaced(text: str) -> str:
    for former, latter in REPLACED.items():
        text = text.replace(former, latter)
    return text


def _when(condition: str, text: str) -> str:
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n" if condition else text


if __name__ == "__main__":
    folder = FOLDER / "templates"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in templates().items():
        (folder / name).write_text(text)
