"""REST under `/api/v1`: queries to cores and to the configuration service, and live views."""
