"""Rules that say who may do what, and on which topics: `Policy`.

A rule grants; nothing is forbidden by one. Whom it is for is a list of names:

    user:NAME      a user, whichever way it proved to be that
    role:NAME      users with that role, by the file of identities or by their token
    cert:SUBJECT   who shows a certificate of that subject (RFC 4514), of the rule's authority alone
                   where it names one
    ca:NAME        who shows a certificate that an authority has issued
    anonymous      who proves nothing
    everybody      all of these

A rule with topics grants publishing and subscribing on those alone; what has no topic takes a rule
without. Its other rights have no topics: they hold as they are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from filters import Expression, Topic, TopicPattern, parse_expression
from filters.dialects import TOPIC_FULL


class Right(Enum):
    """A right of a principal; `gateway.security.authorise` asks for it."""

    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    MANAGE = "manage"
    """Renew, end or read what it, or somebody whose key it has, subscribed to."""
    OPERATE = "operate"
    """Change what others made, and the gateway itself."""
    READ = "read"
    """See what there is, without changing it."""


ALL_RIGHTS = frozenset(Right)


EVERYBODY = "everybody"
NOBODY_IN_PARTICULAR = "anonymous"
BY_TOPIC = frozenset({Right.PUBLISH, Right.SUBSCRIBE})
_REMEMBERED = 4096
"""Decisions that are kept for each principal: a publisher has few topics."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        number: Its place in the file, from 1, by which an operator finds it.
        who: Names, as the module says.
        topics: Expressions of WS-Topics; empty: all topics, and what has none.
    """

    number: int
    who: frozenset[str]
    rights: frozenset[Right]
    topics: tuple[TopicPattern, ...] = ()

    def grants(self, right: Right, topic: Topic | None) -> bool:
        """Return True if it grants *right*, on *topic* where that right has topics."""
        if right not in self.rights:
            return False
        if not self.topics or right not in BY_TOPIC:
            return True
        return topic is not None and any(one.matches(topic) for one in self.topics)


class Grants:
    """What the rules for one principal grant."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self.rights = frozenset[Right]().union(*(rule.rights for rule in self.rules))
        # On all topics, and on what has none.
        self.unlimited = frozenset[Right]().union(
            *(rule.rights for rule in self.rules if not rule.topics)
        )
        self._decided: dict[tuple[Right, Topic | None], bool] = {}

    def allows(self, right: Right, topic: Topic | None) -> bool:
        """Return True if a rule grants *right* on *topic*; None is an event without topic."""
        if right in self.unlimited:
            return True
        known = self._decided.get((right, topic))
        if known is None:
            if len(self._decided) >= _REMEMBERED:
                self._decided.clear()
            known = self._decided[right, topic] = self.rule_for(right, topic) is not None
        return known

    def rule_for(self, right: Right, topic: Topic | None) -> Rule | None:
        """Return the first rule that grants *right* on *topic*."""
        return next((rule for rule in self.rules if rule.grants(right, topic)), None)

    def may_match(self, right: Right, pattern: TopicPattern) -> bool:
        """Return True if a rule grants *right* on some topic that *pattern* matches."""
        if right in self.unlimited:
            return True
        return any(
            own.overlaps(pattern)
            for rule in self.rules
            if right in rule.rights
            for own in rule.topics
        )


ALL_GRANTS = Grants([Rule(0, frozenset({EVERYBODY}), ALL_RIGHTS)])
"""What everybody has where no rules are set."""


class Policy:
    """Finds the rules for a principal. 10,000 rules cost nothing a request: what they grant is
    gathered once for the names of a principal."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self._by_name: dict[str, list[Rule]] = {}
        for rule in self.rules:
            for name in rule.who:
                self._by_name.setdefault(name, []).append(rule)
        self._gathered: dict[frozenset[str], Grants] = {}

    def grants(self, names: Iterable[str]) -> Grants:
        """Return what a principal with *names* has; `EVERYBODY` is among them of itself."""
        all_names = frozenset(names) | {EVERYBODY}
        found = self._gathered.get(all_names)
        if found is None:
            if len(self._gathered) >= _REMEMBERED:
                self._gathered.clear()
            rules = {each for name in all_names for each in self._by_name.get(name, ())}
            found = Grants(sorted(rules, key=lambda rule: rule.number))
            self._gathered[all_names] = found
        return found


def read_topics(
    expressions: Iterable[str], namespaces: Mapping[str, str]
) -> tuple[TopicPattern, ...]:
    """Read topic expressions of a rule.

    Raises:
        FilterError: One cannot be read.
    """
    declared = tuple(sorted(namespaces.items()))
    return tuple(parse_expression(Expression(text, TOPIC_FULL, declared)) for text in expressions)
