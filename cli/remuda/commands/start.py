"""Commands that start something: a system, a service, a demonstration, a load."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..terminal import arguments
from .options import DEFAULT_URL, Assignments, Plain, SettingsFile, path_argument, path_option


class Cluster(StrEnum):
    KUBERNETES = "kubernetes"
    OWN = "own"
    BATCH = "batch"


def init(
    directory: Annotated[Path, path_argument("Where to write them. Default: here.", "[DIR]")] = Path(),
    cluster: Annotated[
        Cluster | None,
        typer.Option("--kind", help="What nodes run: pods, work of a resource manager of your own, batch jobs."),
    ] = None,
    team: Annotated[
        list[str] | None, typer.Option(metavar="NAME[=SHARE]", help="A team, which gets a queue. Repeatable.")
    ] = None,
    capacity: Annotated[
        str | None, typer.Option(metavar="AMOUNTS", help="What all nodes have, such as vcore=64,memory=256Gi.")
    ] = None,
    gpus: Annotated[int | None, typer.Option(min=0, max=10**9, help="GPUs of all nodes.")] = None,
    user_limit: Annotated[
        str | None, typer.Option(metavar="AMOUNTS", help="Most of each user in a team's queue. Empty: no limit.")
    ] = None,
    preemption: Annotated[
        bool | None,
        typer.Option("--preemption/--no-preemption", help="Whether teams take back what is guaranteed to them."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing; defaults for what no option says.")] = False,
) -> None:
    """Write a first queues.yaml and remuda.yaml, with comments. Asks what no option says."""
    from ..admin.init import Given
    from ..admin.init import init as write
    from ..drafts.fresh import Cluster as Kind

    kind = None if cluster is None else Kind(cluster.value)
    write(directory, Given(kind, team, capacity, gpus, user_limit, preemption), yes, force)


def up(
    data: Annotated[Path, path_option("Directory for streams and logs.")] = Path("remuda-data"),
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the NATS server on 127.0.0.1. 0: any free port.")
    ] = 4222,
    config: Annotated[Path | None, path_option("queues.yaml to serve. Changes apply at once.")] = None,
    cores: Annotated[
        int,
        typer.Option(min=1, max=64, help="Core processes. They share the resource managers and replace each other."),
    ] = 1,
    rmproxies: Annotated[int, typer.Option(min=1, max=64, help="rmproxy processes.")] = 1,
    settings: SettingsFile = None,
    assignments: Assignments = None,
    grpc_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port of the gRPC front end. 0: any free port, as `remuda status` shows. Default: 3333.",
        ),
    ] = None,
    web_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port of REST and the web page. 0: any free port, as `remuda status` shows. Default: 9080.",
        ),
    ] = None,
    peloton_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Serve clients of Peloton's resource manager on this port, usually 5394. 0: any free port.",
        ),
    ] = None,
    peloton_engines: Annotated[
        int, typer.Option(min=0, max=64, help="With --peloton-port: placement engines to start.")
    ] = 0,
    archive: Annotated[
        str | None,
        typer.Option(metavar="STORE", help="Keep an archive there: a directory, or a URL like s3://bucket/prefix."),
    ] = None,
    plain: Plain = False,
) -> None:
    """Start a NATS server and all services on this machine, and restart what ends, until Ctrl-C."""
    from ..local.system import Layout
    from ..local.up import up as start

    layout = Layout(
        data, port, config, cores, rmproxies, grpc_port, web_port, peloton_port, peloton_engines, archive,
        settings=settings, assignments=tuple(assignments or ()),
    )  # fmt: skip
    start(layout, plain)


def run(
    service: Annotated[
        str,
        typer.Argument(
            help="rmproxy, core, config, events, archive, history, shadow, grpc, kubernetes, placement, resmgr or web."
        ),
    ],
    nats: Annotated[
        str | None,
        typer.Option(metavar="URL", help="NATS server to connect to, as --set nats.url.", callback=arguments.url),
    ] = None,
    file: Annotated[Path | None, path_option("config only: queues.yaml to serve and watch.")] = None,
    queues: Annotated[
        Path | None, path_option("shadow only: the queues.yaml to decide with, as --set shadow.queues.")
    ] = None,
    version: Annotated[
        Path | None,
        path_option(
            "shadow only: wheels of another version to decide with, as --set shadow.version.", metavar="WHEEL|DIR"
        ),
    ] = None,
    settings: SettingsFile = None,
    assignments: Assignments = None,
) -> None:
    """Run one service in the foreground, against a NATS server with JetStream."""
    from ..local.run import run as start

    start(service, nats, {"file": file, "queues": queues, "version": version}, settings, assignments or ())


def demo(
    seconds: Annotated[float, typer.Option(min=4, help="Duration in seconds, from start to summary.")] = 20,
    web: Annotated[
        bool, typer.Option("--web", help="Serve the web page, and run until Ctrl-C instead of for some seconds.")
    ] = False,
    web_port: Annotated[int, typer.Option(min=0, max=65535, help="With --web: the port. 0: any free one.")] = 0,
    gpu: Annotated[
        bool,
        typer.Option("--gpu", help="One cluster of GPUs in racks: gangs, whole GPUs and shares of them."),
    ] = False,
    plain: Plain = False,
) -> None:
    """Run a system with two simulated resource managers and a mixed workload, and print a summary. Keeps no files."""
    from ..simulated_rm.demo.command import demo as start

    start(seconds=seconds, plain=plain, web_port=web_port if web else None, gpu=gpu)


def load(
    nats: Annotated[
        str | None,
        typer.Option(
            "--nats",
            envvar="REMUDA_NATS_URL",
            metavar="URL",
            help="NATS server of a running system. Default: a system of its own; with --queue or --keep that at"
            f" {DEFAULT_URL}.",
            callback=arguments.url,
        ),
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes.")] = 100,
    apps: Annotated[int, typer.Option(min=1, help="Number of applications.")] = 10,
    asks: Annotated[int, typer.Option(min=1, help="Number of asks of each application.")] = 100,
    rate: Annotated[float | None, typer.Option(min=0.1, help="Asks per second. Default: unlimited.")] = None,
    duration: Annotated[
        float | None,
        typer.Option(
            parser=arguments.duration_s,
            metavar="DURATION",
            help="Time until an allocation is released, such as 500ms. Default: never.",
        ),
    ] = None,
    trace: Annotated[
        tuple[str, Path, Path] | None,
        typer.Option(metavar="openb NODES.csv PODS.csv", help="Replay a recorded cluster instead."),
    ] = None,
    speed: Annotated[
        float | None, typer.Option(min=0.001, help="Trace seconds per second. Default: unlimited.")
    ] = None,
    queue: Annotated[
        str,
        typer.Option(
            metavar="QUEUE",
            help="Submit to this leaf queue of a running system's configuration. With --trace, {qos} in it is"
            " the class of a pod. Default: a queue of a configuration of its own.",
        ),
    ] = "",
    devices: Annotated[
        bool,
        typer.Option("--devices", help="With --trace: its GPUs are devices, filled so that little of them is wasted."),
    ] = False,
    rm: Annotated[
        str | None, typer.Option(help="rmID to register as. Default: a new one.", callback=arguments.rm_id)
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Of a running system: keep nodes, applications and allocations at the end.")
    ] = False,
    plot: Annotated[
        Path | None,
        path_option("Plot utilisation over time into this file (.png, .svg, .pdf). Needs `remuda-scheduler\\[plot]`."),
    ] = None,
    json: Annotated[Path | None, path_option("Write the report as JSON into this file. -: stdout.")] = None,
    record: Annotated[Path | None, path_option("Write every callback, in order, as JSON lines.")] = None,
    plain: Plain = False,
) -> None:
    """Submit a workload as a simulated resource manager, and report throughput, latency and wrong answers."""
    from ..simulated_rm.load.command import Options
    from ..simulated_rm.load.command import load as start

    start(
        Options(
            # A system of its own has no such queue, and keeps nothing.
            nats=nats or (DEFAULT_URL if queue or keep else None),
            nodes=nodes,
            apps=apps,
            asks=asks,
            rate=rate,
            duration_s=duration,
            trace=trace,
            speed=speed,
            queue=queue,
            devices=devices,
            rm=rm,
            keep=keep,
            plot=plot,
            json=json,
            record=record,
            plain=plain,
        )
    )
