"""Publish and subscribe from any program: in WS-Eventing, WS-Notification, CloudEvents and others.

`dragoman.client` has a client for each specification. This package is installed by itself
(``dragoman-client``), or with a clone of the gateway.
"""
