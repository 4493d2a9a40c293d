"""Proofs of rights to topics in JSON, whose requests have no headers of SOAP and no message id."""

import base64
from typing import Annotated

from fastapi import HTTPException
from pydantic import BaseModel, Field

from gateway.exchange import Proof

MOST = 90_000
"""Characters: the base64 of a message of topic discovery."""


class Proving(BaseModel):
    """What brings the right to a topic that is somebody's."""

    tdn_authorization: Annotated[str, Field(max_length=MOST)] | None = Field(
        None,
        description="The right to a protected topic: a tdn:Authorization in base64, whose "
        "possession names `tdn_request`, and has the digest of the request. It counts once.",
    )
    tdn_request: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        None, description="The id of this request, in the possession: any that is new."
    )

    def proof(self, content: bytes) -> Proof | None:
        """What is brought, if anything.

        Args:
            content: The whole request, in JSON.

        Raises:
            HTTPException: 422: it cannot be read.
        """
        if self.tdn_authorization is None and self.tdn_request is None:
            return None
        if self.tdn_authorization is None or self.tdn_request is None:
            raise HTTPException(422, "tdn_authorization and tdn_request go together.")
        try:
            octets = base64.b64decode("".join(self.tdn_authorization.split()), validate=True)
        except ValueError:
            raise HTTPException(422, "tdn_authorization is not base64.") from None
        return Proof(octets, self.tdn_request, content)
