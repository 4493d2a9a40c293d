"""Messages that are kept for consumers to fetch, and the specifications by which they fetch them.

Public are its modules: `kept` (envelopes as a mailbox keeps them), `message_box` and
`make_connection`.
"""
