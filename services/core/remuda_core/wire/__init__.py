"""Protobuf messages (remuda.v1 and si.v1 in proto/) to values and back. Apart from the shell, which passes messages on,
nothing else in the core knows protobuf.
"""
