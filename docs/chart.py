"""Copies the files of deploy/ that the Helm chart contains: a chart reads no files outside of its folder.

python -m docs.chart
"""

from __future__ import annotations

import shutil
from pathlib import Path

DEPLOY = Path(__file__).parents[1] / "deploy"
CHART = DEPLOY / "helm/remuda"
FILES = {
    "queues.yaml": "queues.yaml",
    "nats/nats.conf": "nats/nats.conf",
    "nats/cluster.conf": "nats/cluster.conf",
    "prometheus/prometheus.yml": "prometheus/kubernetes.yml",
    "prometheus/alerts.yml": "prometheus/alerts.yml",
    "tempo/tempo.yaml": "tempo/tempo.yaml",
    "grafana/datasources/remuda.yaml": "grafana/provisioning/datasources/remuda.yaml",
    "grafana/providers/remuda.yaml": "grafana/provisioning/dashboards/remuda.yaml",
} | {f"dashboards/{file.name}": f"grafana/dashboards/{file.name}" for file in (DEPLOY / "grafana/dashboards").iterdir()}


def copies() -> dict[str, bytes]:
    """The content of each file of the chart's folder `files`, by its path there."""
    return {name: (DEPLOY / source).read_bytes() for name, source in FILES.items()}


if __name__ == "__main__":
    shutil.rmtree(CHART / "files", ignore_errors=True)
    for name, content in copies().items():
        file = CHART / "files" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
