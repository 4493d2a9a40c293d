"""Faults that extend BaseFault (WS-BaseFaults 1.2, section 2), as WSRF and WS-Notification have
them."""

from mediation import names
from mediation.model.specification import Code, Detail, Fault


def base_fault(
    namespace: str,
    name: str,
    *,
    action: str,
    base: str = names.WSRF_BF,
    code: Code = Code.SENDER,
    detail: Detail = Detail.NONE,
    inner: str = "",
    otherwise: str = "",
) -> Fault:
    """The fault whose detail is the element *name*; *base* is the namespace of BaseFault."""
    return Fault(
        code,
        element=f"{{{namespace}}}{name}",
        base=base,
        detail=detail,
        inner=inner,
        otherwise=otherwise,
        action=action,
    )
