"""Authentication of requests: by bearer tokens, a login at an OpenID provider, client certificates, or this machine."""
