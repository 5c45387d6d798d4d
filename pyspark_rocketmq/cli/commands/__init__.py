"""The commands: one module for each command, or for all commands that begin with one word.

`COMMANDS` of a module has its commands; `table` lists them with their summaries.
"""
