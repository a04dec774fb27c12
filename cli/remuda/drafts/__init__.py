"""Drafts of queues.yaml and remuda.yaml: new ones from answers, and translations of other schedulers' configurations.
Pure: texts in, texts and notes out.

`translate` is the whole way of a translation. Each scheduler has a module of its own, which builds the draft as a tree
of YAML and notes what has no counterpart. `settle` then makes any draft obey the rules of queues.yaml."""
