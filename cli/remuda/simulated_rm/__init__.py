"""A simulated resource manager: reports nodes, submits asks, and checks every callback. `load` and `demo` use it."""
