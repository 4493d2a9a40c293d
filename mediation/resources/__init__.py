"""WSRF: properties, lifetime and faults of resources."""
