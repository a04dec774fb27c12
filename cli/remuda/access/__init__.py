"""Keys and permissions on the bus, and the NATS configuration generated from them."""
