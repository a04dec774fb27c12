"""Switches off gRPC's handlers of forks, which it looks up when it is imported.

With them, its threads start in children, too. A child that writes a snapshot closes all connections, and was then
aborted by such a thread. It calls nothing of gRPC.
"""

from __future__ import annotations

import os

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
