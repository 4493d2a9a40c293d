"""Responses on the wire: the envelope that answers a request, in the versions that it came in."""

from mediation.model.requests import Context, Response
from mediation.soap.addressing import is_anonymous, write_headers
from mediation.soap.envelopes import write_envelope
from mediation.specifications import SPECIFICATIONS


def write_response(
    response: Response, context: Context, *, message_id: str, reply_headers: str = ""
) -> tuple[str, bytes]:
    """Write the answer to the request of *context*: the action and the envelope. Both are empty
    where the specification answers nothing."""
    if context.version is None:
        raise ValueError("events have no response")
    answer = SPECIFICATIONS[context.version].requests.write(response, context)
    if answer.envelope is not None:
        return answer.action, answer.envelope
    wsa = context.wsa
    reply_to = context.headers.reply_to
    to = reply_to.address if reply_to else (wsa.anonymous if wsa else None)
    if wsa is not None and to is not None and is_anonymous(to):
        to = wsa.anonymous
    headers = write_headers(
        wsa,
        action=answer.action,
        message_id=message_id,
        relates_to=context.headers.message_id,
        to=to,
    )
    envelope = write_envelope(
        context.soap, wsa, headers + reply_headers + answer.headers, answer.body
    )
    return answer.action, envelope
