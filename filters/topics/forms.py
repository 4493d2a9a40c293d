"""Topics that are a short form of others: of documents' metadata, IHE's Document Metadata
Subscription has full and minimal notifications, each on a topic (ITI TF-2, 3.52.5.1).

Who subscribes to the minimal form subscribes to the same events as who subscribes to the full one,
and its filter sees the full one.
"""

from collections.abc import Mapping

from filters.topics.patterns import PathStep, TopicPath
from filters.topics.topics import Step, Topic

IHE = "urn:ihe:iti:dsub:2009"
_FULL_FORMS = {
    "MinimalDocumentEntry": "FullDocumentEntry",
    "ExtendedMinimalDocumentEntry": "ExtendedFullDocumentEntry",
}
_FULL_PATHS = {
    TopicPath((PathStep(minimal, IHE),)): TopicPath((PathStep(full, IHE),))
    for minimal, full in _FULL_FORMS.items()
}
MINIMAL_FORMS: Mapping[Topic, Topic] = {
    Topic((Step(IHE, full),)): Topic((Step(IHE, minimal),)) for minimal, full in _FULL_FORMS.items()
}
"""The topics of full forms, and those of the minimal forms that are made of them."""


def are_minimal(paths: tuple[TopicPath, ...]) -> bool:
    """Return whether *paths* name minimal forms and nothing else: who names a full form, too, or
    everything, gets what is published as it is."""
    return bool(paths) and all(path in _FULL_PATHS for path in paths)


def with_full_forms(paths: tuple[TopicPath, ...]) -> tuple[TopicPath, ...]:
    """*paths*, and where they are minimal forms, the full ones of which these are made."""
    if not are_minimal(paths):
        return paths
    return (*paths, *(_FULL_PATHS[path] for path in paths))
