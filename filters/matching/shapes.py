"""Plans for expressions."""

from filters.filter import Expression
from filters.matching.plan import Plan
from filters.matching.planner import plan
from filters.xpath.parser import parse


def plan_of(expression: Expression) -> Plan:
    return plan(parse(expression))
