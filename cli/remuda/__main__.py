"""`python -m remuda` is the command `remuda`: so the supervisor need not know where scripts are installed."""

from .main import app

app()
