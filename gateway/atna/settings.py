"""The table ``atna`` in the settings."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from gateway.security.networks import one_host

_Printed = r"^[ -~]{1,255}$"


class AtnaSettings(BaseModel):
    """An audit repository of IHE, to which the audit log is sent.

    Attributes:
        host, port: Where it takes syslog over TLS.
        certificate, key: This node's, which it is shown; the key may be in the same file.
        ca: The authorities that certify repositories; those of the system when None.
        source: The name of this gateway there (AuditSourceID).
        site: That of the enterprise (AuditEnterpriseSiteID); empty: not said.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: Annotated[str, AfterValidator(one_host)]
    port: int = Field(6514, ge=1, le=65535)
    certificate: Path
    key: Path | None = None
    ca: Path | None = None
    source: str = Field("dragoman", pattern=_Printed)
    site: str = Field("", pattern=r"^[ -~]{0,255}$")
