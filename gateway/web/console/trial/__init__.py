"""The page of the console on which an event is composed, converted, filtered and sent."""
