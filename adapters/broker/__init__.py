"""What adapters of brokers share: reconnecting, prefetch, confirms, destinations, and how a
notification stands in a native message."""
