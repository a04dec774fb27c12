"""`python -m remuda` runs the command line, so that the supervisor needs no path of the script."""

from .main import app

app()
