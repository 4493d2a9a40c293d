"""Counts the different names in documents, in plain Python."""

from lxml import etree


class Names:
    """Counts names as the compiled engine's class does."""

    def __init__(self) -> None:
        self._met: set[str] = set()

    def meet(self, root: etree._Element, limit: int) -> int:
        """Meet those of a document; returns how many there were ever, counted up to *limit*."""
        met = self._met
        if len(met) < limit:
            for element in root.iter(etree.Element):
                met.add(element.tag)
                met.update(map(str, element.attrib))
        return min(len(met), limit)
