"""IHE's Audit Trail and Node Authentication: the audit log, as an audit repository wants it.

    audit.jsonl --> messages.py   DICOM PS3.15, A.5: an AuditMessage for each record
        |              |
      sender.py --- syslog.py     RFC 5424, over TLS (RFC 5425): IHE's ITI-20

The log is the queue: it is on the disk before anything is sent, and `sender.py` keeps how far it
was sent. A repository that is away for a day delays nobody.
"""
