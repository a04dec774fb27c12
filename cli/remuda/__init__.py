import remuda_bus.nats  # noqa: F401  # before anything else imports the client of NATS, and slowly
