"""What commands share at the terminal: output, figures, arguments, signals, exit codes."""
