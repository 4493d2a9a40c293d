"""The kit for adapters of brokers: reconnecting, prefetch, confirms, destinations, and reading
native messages as notifications. docs/adapters.md says what each module is for."""
