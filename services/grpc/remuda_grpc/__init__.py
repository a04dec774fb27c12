"""The gRPC front end: `si.v1.Scheduler` (000) for resource managers that do not speak NATS."""
