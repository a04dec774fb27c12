"""A resource manager whose queues have budgets: small ones, so that asks wait for the next period."""

from __future__ import annotations

from .resource_manager import CONFIGURATIONS, Rm

# In an hour of 1, 0.06 are used in a minute of 3.6: periods are reached, and begin again while others are played.
BUDGET = "budget: {amounts: {vcore: %s h}, period: 1m}"
SPENDING_CONFIGURATIONS = (
    CONFIGURATIONS[0]
    .replace("{name: b,", f"{{name: b, {BUDGET % '5m'},")
    .replace("{name: c, parent: true,", f"{{name: c, parent: true, {BUDGET % '4m'},"),
    CONFIGURATIONS[1]
    .replace("{name: a,", f"{{name: a, {BUDGET % '6m'},")
    .replace("{name: b,", f"{{name: b, {BUDGET % '9m'},"),
)


class SpendingRm(Rm):
    VCORE = 100
    CONFIGURATION = SPENDING_CONFIGURATIONS[0]
    CONFIGURATIONS = SPENDING_CONFIGURATIONS
