"""Finds the groups of users for applications that name none, from a directory: the operating system's or LDAP."""
