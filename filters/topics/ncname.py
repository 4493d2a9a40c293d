"""The characters of an NCName (Namespaces in XML 1.0, "Qualified Names"), as parts of a regular
expression's character class."""

START = (
    r"A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d"
    r"\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
FURTHER = START + r"\-.0-9\u00b7\u0300-\u036f\u203f\u2040"

NCNAME = f"[{START}][{FURTHER}]*"
