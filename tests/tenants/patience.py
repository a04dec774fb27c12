"""How much longer a wait may be on a machine that others use: REMUDA_PATIENCE=4. What a tenant may cost others is
measured on a machine that is quiet, with 1."""

from __future__ import annotations

import os
from typing import Final

PATIENCE: Final = float(os.environ.get("REMUDA_PATIENCE", "1"))
