"""`python -m shoal.cli`."""

from shoal.cli.app import main

main()
