"""The bus in memory, for tests: one object is server and client at once. Deterministic; nothing is durable.

Every stream and bucket of `subjects` exists from the start. A JetStream server expires entries by itself; here `tick()`
does, which a timer calls. A test with a clock of its own calls it itself.
"""

from remuda_bus.memory.bus import MemoryBus
from remuda_bus.memory.stream import matches

__all__ = ["MemoryBus", "matches"]
