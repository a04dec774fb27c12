"""Commands that change the data of a running system."""
