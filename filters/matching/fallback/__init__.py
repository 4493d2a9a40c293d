"""Evaluation by libxml2, in a worker process with a time limit, of what no plan is exact about."""
