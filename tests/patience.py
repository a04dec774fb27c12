"""The factor of allowed waits on a busy machine: REMUDA_PATIENCE=4. The effects of one tenant on others are
measured on a machine that is quiet, with 1."""

from __future__ import annotations

import os
from typing import Final

PATIENCE: Final = float(os.environ.get("REMUDA_PATIENCE", "1"))
READY_S: Final = 60.0 * PATIENCE  # until the services of a test have started as processes and answer
