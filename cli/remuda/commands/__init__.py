"""The commands: their names, options and help. Each imports what it does when it runs, so that a service started by
`remuda run` loads no terminal libraries.
"""
