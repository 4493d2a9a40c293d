"""The running service: web service endpoints, delivery, the store, the command line."""
