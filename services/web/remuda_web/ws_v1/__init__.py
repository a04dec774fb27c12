"""REST under `/ws/v1`, in the shapes of Apache YuniKorn 1.4: rows of queries to its JSON (pure), and the routes."""
