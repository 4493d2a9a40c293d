"""The policy of a node, as data: whom it serves, and which topics it keeps."""

from dataclasses import dataclass

from cryptography import x509
from cryptography.x509.oid import NameOID

from filters.queries import Described, Query
from mediation.discovery import AnyAdvertisement, Signer, SynopsisType, TopicAdvertisement


@dataclass(frozen=True)
class NodePolicy:
    """Rules of a node. Of each set that is not empty, one must fit; an empty one asks for nothing,
    so that the policy without any rule is that of an open node.

    Attributes:
        credentials: Requests for nodes and topics must be signed, as requests for new topics are.
        realms: Organisations (O) or common names of the authority that issued the certificate.
        institutions: As creators name theirs.
        creators: Identifiers of entities.
        provenance: Identifiers of nodes: topics that one of them signed are kept.
        synopsis_types: What topics may be marked with.
        description: Is true of a topic that is kept, or made.
        shortest_query: Characters; shorter ones are refused, lest one query gets all there is.
        most_results: In one answer.
        answers_in_the_clear: Signed requests of who can decrypt nothing (an elliptic-curve key) are
            answered in the clear.
    """

    credentials: bool = False
    realms: frozenset[str] = frozenset()
    institutions: frozenset[str] = frozenset()
    creators: frozenset[str] = frozenset()
    provenance: frozenset[str] = frozenset()
    synopsis_types: frozenset[SynopsisType] = frozenset()
    description: Query | None = None
    shortest_query: int = 1
    most_results: int = 1000
    answers_in_the_clear: bool = True

    @property
    def kinds(self) -> tuple[SynopsisType, ...]:
        """The types of synopses that topics may have."""
        return tuple(kind for kind in SynopsisType if self._fits(self.synopsis_types, kind))

    def serves(self, signer: Signer | None) -> bool:
        """Return True if requests of *signer* are answered; None stands for no signature."""
        if signer is None:
            return not (self.credentials or self.realms)
        return not self.realms or not self.realms.isdisjoint(_realms(signer.certificate))

    def serves_institution(self, institution: str | None) -> bool:
        """Return True if this node offers itself to entities of *institution*."""
        return institution is None or self._fits(self.institutions, institution)

    def objection(
        self, topic: AnyAdvertisement, described: Described, creator: Signer
    ) -> str | None:
        """Return why *topic* is not made or kept; None if nothing stands against it. Of an
        encrypted one only creator and node are known, so it meets no rule about anything else."""
        if not self.serves(creator):
            return "the certificate is of another realm"
        if not self._fits(self.creators, topic.creator.entity_id):
            return "the creator is not one of those that are served"
        if not self._fits(self.provenance, topic.node):
            return "the topic was signed by a node whose topics are not kept"
        if not self._fits(self.institutions, topic.creator.institution):
            return "the institution is not one of those that are served"
        kind = topic.synopsis.type if isinstance(topic, TopicAdvertisement) else None
        if not self._fits(self.synopsis_types, kind):
            return "topics with such a synopsis are not kept"
        if self.description is not None and (
            kind is None or not self.description.matches(described)
        ):
            return "the topic is not described as those are that are kept"
        return None

    @staticmethod
    def _fits(wanted: frozenset[object] | frozenset[str], found: object) -> bool:
        return not wanted or found in wanted


def _realms(certificate: x509.Certificate) -> set[str]:
    names = (NameOID.ORGANIZATION_NAME, NameOID.COMMON_NAME)
    found = [one for name in names for one in certificate.issuer.get_attributes_for_oid(name)]
    return {str(one.value) for one in found}
