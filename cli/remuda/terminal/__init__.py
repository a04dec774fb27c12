"""The terminal side of all commands: output, figures, arguments, signals, exit codes."""
