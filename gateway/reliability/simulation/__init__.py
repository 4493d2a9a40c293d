"""A simulator of reliable messaging: a client and a service with their own clock, network and disk,
all from one seed. The same seed is the same run, so that what it finds can be looked at again.

Public is `simulate` of `run`, which takes a `Scenario`.
"""
