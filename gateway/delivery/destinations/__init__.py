"""Destinations, the hosts and ports that are sent to, and what bounds the attempts at each."""
