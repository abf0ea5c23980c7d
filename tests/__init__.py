"""The tests; `make test` runs them, `make bench` runs tests/benchmarks."""
