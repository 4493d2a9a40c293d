"""Several gateways that share one store and one broker."""
