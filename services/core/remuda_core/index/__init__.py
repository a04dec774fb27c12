"""The scheduling index: what a pass looks up, kept beside the state and changed by every fact.

A pass (`cycle/schedule.py`) asks, in this order; n is the number of asks, nodes or queues:

    which reserved ask has room now       Reservations.next_placement        O(log n)
    which gang can take placeholders      PartitionIndex.next_gang           O(depth * log n)
    which ask is next                     PartitionIndex.next_ask_class      O(depth * log n)
    which node is best for it             NodeIndex.best                     O(log n)
    which node should it reserve          ReservingDemands.closest_node      O(node groups), bounded in a pass
    which ask may preempt                 Preemptors.next_ask                O(log n)

Facts change it, and nothing else does: `Index.apply` looks up the kind of the fact in the table of `apply`. A change
costs O(log n) for each ask, node or queue that the fact touches. It marks ranks as changed and does not compute them: a
rank is computed when it is compared. A look-up may tidy up in the same way, which changes no answer.

Three ideas make this cheap, whatever the number of asks and nodes:

    equal asks are one      An ask class has the asks of a leaf queue that are equal to the rules. All asks that want
                            the same of a node share a demand.
    equal nodes are one     A node group has the nodes with the same capacity and available amounts. A search compares
                            groups.
    waiting costs nothing   A demand is closed once no node fits it, an ask class is parked at the limit that is full,
                            a gang that cannot take a placeholder is not ranked. What may unblock them wakes them.

The modules, from what a pass asks down to what the answers are made of. Each imports only those below it:

    index          the indexes of all partitions of a resource manager
    apply          how each kind of fact changes the index
    build          makes an index, or what depends on the settings of a queue, from the state
    updates        changes that several facts have in common
    partition      the index of a partition: its parts, and the questions above
    gangs          gangs whose real asks can replace placeholders
    leaves         the ask classes of a leaf queue by rank; turns of stateaware queues
    users          rankings of users, and of what each of them has
    queues         queues by rank and their headroom; dormant queues
    preemption     which ask may try to preempt
    reservations   which demands may reserve, what bounds reserved nodes, which reserved ask has room
    patience       which asks have waited so long that they go before others
    asks           ask classes, and the asks of an application by priority and age
    groups         groups of asks and where their next members are placed; which domains they are bound to
    demands        which demands are open, reserving or closed; freed nodes; sets of demands as bits
    packed_nodes   the best node for a demand where racks that are broken come first
    domains        domains of nodes, and how many copies of a member fit in each
    priced_nodes   the best node for a demand where the node sort policy has prices
    nodes          the best node for a demand: node groups by score, packed applications, accepted nodes
    devices        what is free on devices as amounts of vectors
    node_groups    demands and node groups
    scores         the scores of the node sort policies
    limits         which quota or limit keeps an ask from being allocated
    moments        when effective shares are measured, and what has to be ranked again as time passes
    trees          trees that are searched by bits; the budget of a pass
    ordered        a list that is searched by room; a ranking that computes ranks when they are compared
"""
