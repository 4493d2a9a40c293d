"""WS-Eventing, a module for each version; WS-Messenger's publications, and WS-Management."""
