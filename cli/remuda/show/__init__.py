"""Commands that read a running system and change nothing."""
