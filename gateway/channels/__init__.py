"""Channels: those of the gateway with names, and how all are reached, found and chained.

channels         channels with names; `channel_filters` says what passes the filter of one
operations       what is asked at the address of one
links            our channels as subscribers at others
relay            the way to a listener behind a firewall
java_references  references as they stand in directories
directory        the entries of channels in a directory
naming           keeps our own entry there, and knows the parent's
"""
