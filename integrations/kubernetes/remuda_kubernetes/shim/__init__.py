"""The decisions of the shim, pure: what the API server and the scheduler report becomes messages and API calls."""
