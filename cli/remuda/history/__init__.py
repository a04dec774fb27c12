"""The past of a resource manager, from an archive of its log and its inbox (docs/history.md).

`past` restores the state at any commit. `exact` decides the recorded commands again and compares: the same version
decides the same. `world` keeps only arrivals, run times and nodes, and decides anew. The two are never mixed.
"""
