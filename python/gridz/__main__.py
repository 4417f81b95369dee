"""`python -m gridz`: the command, for when the folder of scripts is not in PATH."""

from gridz.cli import main

main(prog_name="gridz")
