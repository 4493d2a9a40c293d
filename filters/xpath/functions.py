"""The core function library (XPath 1.0, section 4): what each function takes, and gives."""

from typing import NamedTuple

NODE_SET = "node-set"
STRING = "string"
NUMBER = "number"
BOOLEAN = "boolean"


class Function(NamedTuple):
    """*most* None is any number; *takes* is what the arguments must be, None where anything
    converts."""

    fewest: int
    most: int | None
    gives: str
    takes: str | None = None


FUNCTIONS: dict[str, Function] = {
    "last": Function(0, 0, NUMBER),
    "position": Function(0, 0, NUMBER),
    "count": Function(1, 1, NUMBER, NODE_SET),
    "id": Function(1, 1, NODE_SET),
    "local-name": Function(0, 1, STRING, NODE_SET),
    "namespace-uri": Function(0, 1, STRING, NODE_SET),
    "name": Function(0, 1, STRING, NODE_SET),
    "string": Function(0, 1, STRING),
    "concat": Function(2, None, STRING),
    "starts-with": Function(2, 2, BOOLEAN),
    "contains": Function(2, 2, BOOLEAN),
    "substring-before": Function(2, 2, STRING),
    "substring-after": Function(2, 2, STRING),
    "substring": Function(2, 3, STRING),
    "string-length": Function(0, 1, NUMBER),
    "normalize-space": Function(0, 1, STRING),
    "translate": Function(3, 3, STRING),
    "boolean": Function(1, 1, BOOLEAN),
    "not": Function(1, 1, BOOLEAN),
    "true": Function(0, 0, BOOLEAN),
    "false": Function(0, 0, BOOLEAN),
    "lang": Function(1, 1, BOOLEAN),
    "number": Function(0, 1, NUMBER),
    "sum": Function(1, 1, NUMBER, NODE_SET),
    "floor": Function(1, 1, NUMBER),
    "ceiling": Function(1, 1, NUMBER),
    "round": Function(1, 1, NUMBER),
}
