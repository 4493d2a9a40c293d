"""Channels of Grid SOAP Events among others: how they are reached, found and chained.

relay         the way to a listener behind a firewall
"""
