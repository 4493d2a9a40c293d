"""The topics that are known here, for people and for catalogues of others."""

from gateway.web.catalogue.known_topics import (
    Extent,
    KnownTopic,
    Origin,
    Owner,
    Page,
    TopicCatalogue,
)

__all__ = ["Extent", "KnownTopic", "Origin", "Owner", "Page", "TopicCatalogue"]
