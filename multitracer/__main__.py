"""`python -m multitracer` is the command `multitracer`."""

from multitracer.cli import main

main()
