"""Actions of operators: requests become commands in the inbox, and decisions become answers."""
