"""Fakes, contract suites and small true recordings, for our tests and for plugin authors."""
