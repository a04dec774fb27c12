"""Commands for keys: of the services, of operators, of resource managers, of Peloton's clients."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..client import completion
from .options import KEYS, AsJson, KeyDirectory, Rm, path_argument, path_option

OperatorName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name of the operator, as access lists name users: alice@example.com.",
        autocompletion=completion.operators,
    ),
]

ClientName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name of the client, as in the setting resmgr.clients: jobmgr-dev.",
        autocompletion=completion.peloton_clients,
    ),
]


def keys(
    directory: Annotated[Path, path_argument("Directory for the keys.")] = KEYS,
) -> None:
    """Create a key for each role that has none, and server/accounts.conf with the permissions for the NATS servers."""
    from ..access.command import make_keys

    make_keys(directory)


def cluster_keys(
    rm: Annotated[list[str] | None, typer.Option("--rm", help="A resource manager. Repeatable.")] = None,
    operator: Annotated[
        list[str] | None, typer.Option(help="An operator, as NAME or NAME+GROUP+GROUP. Repeatable.")
    ] = None,
    front_end: Annotated[
        list[str] | None,
        typer.Option(
            help='In whose names it acts, as web=OPERATOR,OPERATOR; "web=*": any name and groups. Repeatable.'
        ),
    ] = None,
    certificates: Annotated[
        bool, typer.Option(help="Make a CA and certificates, too; without, they are your own.")
    ] = True,
    client: Annotated[
        list[str] | None,
        typer.Option(help="A client of gRPC or of Peloton, by the name in its certificate. Repeatable."),
    ] = None,
    password: Annotated[list[str] | None, typer.Option(help="A Secret with a password. Repeatable.")] = None,
    domain: Annotated[str, typer.Option(help="The domain of the cluster's services.")] = "cluster.local",
    kubeconfig: Annotated[Path | None, path_option("Of the cluster. Default: the service account of this pod.")] = None,
    namespace: Annotated[str | None, typer.Option(help="Default: that of the pod or of the kubeconfig.")] = None,
) -> None:
    """Create the keys and certificates of an installation on Kubernetes, as Secrets and ConfigMaps. Resource managers
    and operators that are not named lose their keys. The Helm chart runs this before it installs or upgrades."""
    from ..admin.cluster_keys import cluster_keys as make
    from ..admin.cluster_keys import parsed

    clients = (client or []) if certificates else None
    make(parsed(rm or [], operator or [], front_end or [], clients, password or [], domain), kubeconfig, namespace)


def add(rm: Rm, keys: KeyDirectory = KEYS) -> None:
    """Create the key of a resource manager and grant its permissions."""
    from ..access.command import add_rm

    add_rm(keys, rm)


def remove(rm: Rm, keys: KeyDirectory = KEYS) -> None:
    """Delete the key of a resource manager. Its allocations stay."""
    from ..access.command import remove_rm

    remove_rm(keys, rm)


def add_operator(
    name: OperatorName,
    groups: Annotated[str, typer.Option(help="The operator's groups, separated by commas.")] = "",
    keys: KeyDirectory = KEYS,
) -> None:
    """Create the key of an operator, who acts in that name and those groups: kill, move, hold, drain and so on."""
    from ..access.command import add_operator as make

    make(keys, name, groups)


def list_operators(keys: KeyDirectory = KEYS, json: AsJson = False) -> None:
    """List the operators that have a key, with their groups."""
    from ..access.command import list_operators as show

    show(keys, json)


def set_groups(
    name: OperatorName,
    groups: Annotated[str, typer.Argument(help='All groups, separated by commas; "": none.')],
    keys: KeyDirectory = KEYS,
) -> None:
    """Replace the groups of an operator. The key stays."""
    from ..access.command import set_groups as change

    change(keys, name, groups)


def set_front_end(
    front_end: Annotated[str, typer.Argument(help="grpc or web.")],
    operators: Annotated[
        str,
        typer.Argument(
            help='All operators, as NAME or NAME+GROUP+GROUP, separated by commas; "": none; "*": any name and groups.'
        ),
    ],
    keys: KeyDirectory = KEYS,
) -> None:
    """Set in whose names a front end may act. Without this, it only reads for operators."""
    from ..access.command import set_acts_as

    set_acts_as(keys, front_end, operators)


def set_log_levels(
    operators: Annotated[str, typer.Argument(help='All such operators, separated by commas; "": none.')],
    keys: KeyDirectory = KEYS,
) -> None:
    """Set which operators may change log levels of services (`remuda log`)."""
    from ..access.command import set_log_levels as change

    change(keys, operators)


def remove_operator(name: OperatorName, keys: KeyDirectory = KEYS) -> None:
    """Delete the key of an operator."""
    from ..access.command import remove_operator as delete

    delete(keys, name)


def add_client(name: ClientName, keys: KeyDirectory = KEYS) -> None:
    """Create the key of a client, such as a job manager. resmgr.clients says which roles and pools it has."""
    from ..access.command import add_client as make

    make(keys, name)


def list_clients(keys: KeyDirectory = KEYS, json: AsJson = False) -> None:
    """List the clients that have a key."""
    from ..access.command import list_clients as show

    show(keys, json)


def remove_client(name: ClientName, keys: KeyDirectory = KEYS) -> None:
    """Delete the key of a client."""
    from ..access.command import remove_client as delete

    delete(keys, name)
