"""An RM with records of its own, and their comparison with the scheduler's after failures of both.

`books`: what the RM knows, on disk. `rm`: the RM, in this process or in one of its own. `verify`: the comparison.
"""

from tests.accounting.books import Books, Plan
from tests.accounting.rm import AccountingRm
from tests.accounting.verify import verify

__all__ = ["AccountingRm", "Books", "Plan", "verify"]
