"""Turns XPath expressions into plans that engines match."""
