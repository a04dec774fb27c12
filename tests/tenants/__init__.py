"""Several RMs on one real system: `watched`, the system; `side`, an RM that works and is measured; `hostile`, one that
sends what no SDK would send. `faults`: bugs that are put into the services. `small_bounds`: what an RM may have in
streams, a sixteenth of what it is."""

from pathlib import Path

# For PYTHONPATH.
FAULTS = Path(__file__).parent / "faults"
SMALL_BOUNDS = Path(__file__).parent / "small_bounds"
