"""The life of a subscription: its beginning, lease, renewal and expiry, and its end."""
