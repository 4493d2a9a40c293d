"""Who a peer is, what it may use up, and the keys, addresses and certificates that grant access."""
