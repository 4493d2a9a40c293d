"""Channels of Grid SOAP Events among others: how they are reached, found and chained.

relay            the way to a listener behind a firewall
java_references  references as they stand in directories
directory        the entries of channels in a directory
naming           keeps our own entry there, and knows the parent's
    parent           our subscription at the parent
"""
