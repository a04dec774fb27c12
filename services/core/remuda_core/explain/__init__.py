"""Why an ask waits: what is in its way, who holds that, and how many come before it (semantics sections 9 and 17).

`Explanations` has the constraints of several waiting asks of one state: what is in the way apart from nodes
(`standing`), and why no node takes an ask (`nodes`, `topology`, `lacks`). `holders_of` has the applications that hold
what a constraint is about, `Positions` the place of an ask in the scheduling order. All is computed on request.
A constraint is of one of these kinds:

    rm                  the RM is not Running
    held                an operator holds a queue on the path to root
    allocations         the RM has its maximum of allocations
    placeholder         it waits for a placeholder to replace, and none is free
    stateaware          another application of the queue starts first
    maxapplications     a queue on the path to root, the user or the group has its maximum of running applications
    user, group         the user or group is at its limit in a queue on the path to root
    queue               a queue on the path to root is at its maximum
    budget              a queue on the path to root has too little left of its budget in this period
    too_large           it can never run on the nodes there are, whatever leaves them
    node                no node has room, or the node that it is bound to has none
    device              the closest node has room in all, but not on as many of its devices as the ask wants
    domain, slice       no domain has room for all members of its group that start together, or for one more
    avoided             others avoid a domain for its group, or its group avoids one (which alone blocks no ask)
    level               it names a level of the topology that is not configured any more
    unknown_node        the node it is bound to does not exist
    unschedulable_node  the node it is bound to is not ready, or the only nodes that are large enough accept no asks
    leaving             nodes have room, but leave before the ask would end
    window              nodes have room, but a window begins before the ask would end, or the nodes are drained by one
    full_node           nodes have room, but have their maximum of allocations
    predicate           nodes have room, but the RM refuses them
    reserved            nodes have room, but are reserved for other asks
    question            a question to the RM is open
    preemption          its victims are not released yet, or preemption finds no plan (which alone blocks no ask)
"""

from .explanations import Explanations
from .holders import holders_of
from .positions import Positions

__all__ = ["Explanations", "Positions", "holders_of"]
