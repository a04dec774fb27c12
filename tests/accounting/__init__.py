"""An RM with books of its own, and whether they agree with those of the scheduler after whatever was done to both.

`books`: what the RM knows, on disk. `rm`: the RM, in this process or in one of its own. `verify`: the comparison.
"""

from tests.accounting.books import Books, Plan
from tests.accounting.rm import AccountingRm
from tests.accounting.verify import verify

__all__ = ["AccountingRm", "Books", "Plan", "verify"]
