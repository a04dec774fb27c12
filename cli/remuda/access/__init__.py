"""Who may do what on the bus: keys, permissions, and the part of the NATS servers' configuration made from them."""
