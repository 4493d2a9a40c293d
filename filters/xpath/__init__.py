"""XPath 1.0: what of it is taken, its syntax tree, and its compilation by libxml2."""

from filters.xpath.admission import XPathLimits, check, compile_xpath, names_payload_root

__all__ = ["XPathLimits", "check", "compile_xpath", "names_payload_root"]
