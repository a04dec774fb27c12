"""`remuda.v1.Admin` and `remuda.v1.Metrics` without a transport: a function for each method.

The gRPC front end serves them over gRPC, and as endpoints of its NATS micro service. A handler takes a request and
returns a response. It raises Refused with a code as in HTTP, or another BusError. `methods` has the table, and checks
what a caller may do.
"""
