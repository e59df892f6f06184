"""The parts of the command `pyptx`: what its subcommands print.  The command itself is pyptx/__main__.py."""
