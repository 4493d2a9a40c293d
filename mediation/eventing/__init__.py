"""WS-Eventing, one module a version, and what WS-Management adds to it."""
