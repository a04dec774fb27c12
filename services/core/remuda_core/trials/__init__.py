"""Trials on copies of the state: what a configuration would do, and what would let an ask run.

    play       the next passes of a core, as its leader would run them if nothing arrived meanwhile
    preview    the effects of a proposed configuration: the same passes with it and without it
    what_if    the smallest change that lets an ask run: the passes after one change, and after another
    steps      the steps of a change as values, and how they are carried out

Nothing of the live state is touched. The caller makes the copies: `shell.copies` forks a child for each.
"""
