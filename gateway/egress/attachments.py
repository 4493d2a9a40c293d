"""Packages a request with attachments in the form that its consumer reads."""

from dataclasses import replace

from gateway.egress.transport import Request
from mediation.model.messages import Packaging
from mediation.model.versions import Soap
from mediation.packaging.dime import DimeMessage, Encoder
from mediation.packaging.mime import parse_media_type
from mediation.packaging.packages import write_package

_CONTENT_TYPE = "content-type"


def packaged(request: Request) -> tuple[Request, int]:
    """*request* as it goes out over HTTP, and how many of its attachments are left out.

    Raises:
        ValueError: As `package_attachments`.
    """
    if not request.attachments and request.packaging is not Packaging.DIME:
        return request, 0
    headers, body, dropped = package_attachments(request)
    bare = replace(request, headers=headers, body=body, attachments=(), packaging=Packaging.NONE)
    return bare, dropped


def package_attachments(request: Request) -> tuple[tuple[tuple[str, str], ...], bytes, int]:
    """The headers and the body that *request* goes out with over HTTP, and how many of its
    attachments are left out, because its consumer reads no packaging, as far as is known.

    A consumer of DIME gets every message in it; one of MIME gets a plain envelope where there is
    nothing to package.

    What is no envelope goes out as it is: its form has no place for attachments.

    Raises:
        ValueError: What DIME cannot hold: an id or a type of more than 65,535 octets.
    """
    if request.soap is None:
        return request.headers, request.body, len(request.attachments)
    match request.packaging:
        case Packaging.DIME:
            message = DimeMessage(request.soap, request.body, request.attachments)
            return _typed(request, "application/dime"), Encoder().encode(message), 0
        case Packaging.MIME if request.attachments:
            action = _action(request)
            type_, body = write_package(request.body, request.soap, action, request.attachments)
            return _typed(request, type_), body, 0
        case _:
            return request.headers, request.body, len(request.attachments)


def _typed(request: Request, content_type: str) -> tuple[tuple[str, str], ...]:
    """The headers of *request* with another content type."""
    others = [pair for pair in request.headers if pair[0].lower() != _CONTENT_TYPE]
    return (("Content-Type", content_type), *others)


def _action(request: Request) -> str:
    """The action that the headers of *request* say: in SOAP 1.2 the content type does."""
    for name, value in request.headers:
        if name.lower() == _CONTENT_TYPE and request.soap is Soap.V1_2:
            return parse_media_type(value).action or ""
    return ""
