"""SOAP over mail: consumers with ``mailto:`` addresses, one message a mail (RFC 6068, RFC 5321)."""

from gateway.egress.mail.conversation import Conversation
from gateway.egress.mail.settings import MailSettings
from gateway.egress.mail.transport import MailTransport

__all__ = ["Conversation", "MailSettings", "MailTransport"]
