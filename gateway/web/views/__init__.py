"""Views: records of the gateway as plain values, for the JSON of the API, pages and events.

A module a subject, each with the fields that a reader sees and a function that makes them of a
record. A view holds no secret: keys, tokens and passwords are replaced by public ids.
"""
