"""The stores: in memory, in a database, and in a database together with others (two-phase commit).

`gateway.reliability.loading` makes them by URL.
"""
