"""Finds the groups of users for applications that name none, from a directory: that of the operating system, or LDAP."""
