"""The scheduling index: what a pass asks, kept beside the state and told of every fact."""
