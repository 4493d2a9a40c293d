"""Rules that say who may do what, and on which topics: `Policy`.

    names ---> rights, the first rule without topics for each     (of each name)
    topic ---> its paths in rules ---> the first rule for each    (of all names: `TopicRules`)

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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from filters import Expression, Topic, TopicPattern, parse_expression
from filters.dialects import TOPIC_FULL
from filters.topics import TopicIndex, TopicPath


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

    # Each is there once. `Enum` hashes names, in Python, four times for a decision: a microsecond.
    __hash__ = object.__hash__


ALL_RIGHTS = frozenset(Right)


EVERYBODY = "everybody"
NOBODY_IN_PARTICULAR = "anonymous"
BY_TOPIC = frozenset({Right.PUBLISH, Right.SUBSCRIBE})
_GATHERED = 4096
"""Sets of names for which it is kept what rules grant them."""
_REMEMBERED, _LONGEST = 4096, 512
"""Topics whose rules are remembered, for all principals together, and the characters of the longest
one: others are looked up, which takes some microseconds."""
_AT_ONCE = 256
"""Paths of topics that are compared with others at once: as many as the bits of an integer can
stand for at little cost."""


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
    """What the rules for one principal, who has *names*, grant."""

    def __init__(self, policy: "Policy", names: frozenset[str]) -> None:
        self._policy = policy
        self._names = names
        self.rights = frozenset[Right]().union(*map(policy.rights_of, names))
        # On all topics, and on what has none.
        self.unlimited = frozenset[Right]().union(*map(policy.unlimited_of, names))

    def allows(self, right: Right, topic: Topic | None) -> bool:
        """Return True if a rule grants *right* on *topic*; None is an event without topic."""
        if right in self.unlimited or right not in BY_TOPIC:
            return right in self.rights
        return topic is not None and self._policy.topics.grants(self._names, right, topic)

    def rule_for(self, right: Right, topic: Topic | None) -> Rule | None:
        """Return the first rule that grants *right* on *topic*."""
        return self._policy.first(self._names, right, topic)

    def may_match(self, right: Right, pattern: TopicPattern) -> bool:
        """Return True if a rule grants *right* on some topic that *pattern* matches."""
        if right in self.unlimited or right not in BY_TOPIC:
            return right in self.rights
        if pattern.topics is not None:
            return any(self.allows(right, topic) for topic in pattern.topics)
        return self._policy.topics.overlap(self._names, right, pattern)


class TopicRules:
    """The topics of rules, whoever they are for: a topic finds the rules about it, however many
    others there are."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._index = TopicIndex[int]()
        self._firsts: list[Mapping[str, Mapping[Right, int]]] = []
        """Of each path of the index: by name and right the place of the first rule with it."""
        self._found: dict[Topic, Sequence[Mapping[str, Mapping[Right, int]]]] = {}
        """Those of the paths that match a topic."""
        firsts: dict[TopicPath, dict[str, dict[Right, int]]] = {}
        paths: dict[str, dict[Right, dict[TopicPath, None]]] = {}
        for place, rule in enumerate(rules):
            for path in dict.fromkeys(path for pattern in rule.topics for path in pattern.paths):
                for name in rule.who:
                    of_name = firsts.setdefault(path, {}).setdefault(name, {})
                    for right in rule.rights & BY_TOPIC:
                        of_name.setdefault(right, place)
                        paths.setdefault(name, {}).setdefault(right, {})[path] = None
        for number, (path, there) in enumerate(firsts.items()):
            self._index.add(number, (TopicPattern((path,)),))
            self._firsts.append(there)
        self._patterns: dict[str, dict[Right, Sequence[TopicPattern]]] = {
            name: {right: _patterns(tuple(those)) for right, those in by_right.items()}
            for name, by_right in paths.items()
        }

    def places(self, names: frozenset[str], right: Right, topic: Topic) -> Iterator[int]:
        """Yield the places of rules that grant *names* a right on *topic*: the first one of each
        path that matches, and of each name."""
        for firsts in self._about(topic):
            for name in firsts.keys() & names:
                place = firsts[name].get(right)
                if place is not None:
                    yield place

    def grants(self, names: frozenset[str], right: Right, topic: Topic) -> bool:
        """Return True if a rule grants *names* a right on *topic*."""
        for firsts in self._about(topic):
            for name in firsts.keys() & names:
                if right in firsts[name]:
                    return True
        return False

    def _about(self, topic: Topic) -> Sequence[Mapping[str, Mapping[Right, int]]]:
        """The first rules of each path that matches *topic*; asked in any thread."""
        found = self._found.get(topic)
        if found is None:
            found = [self._firsts[number] for number in self._index.search(topic)]
            if len(str(topic)) <= _LONGEST:
                if len(self._found) >= _REMEMBERED:
                    self._found.clear()
                self._found[topic] = found
        return found

    def overlap(self, names: frozenset[str], right: Right, pattern: TopicPattern) -> bool:
        """Return True if a rule grants *names* a right on some topic that *pattern* matches."""
        return any(
            pattern.overlaps(own)
            for name in self._patterns.keys() & names
            for own in self._patterns[name].get(right, ())
        )


def _patterns(paths: tuple[TopicPath, ...]) -> Sequence[TopicPattern]:
    """*paths* as few patterns."""
    return [TopicPattern(paths[n : n + _AT_ONCE]) for n in range(0, len(paths), _AT_ONCE)]


class Policy:
    """Finds the rules for a principal. What they grant is gathered once for the names of a
    principal, without a look at those for others, and a topic finds the rules about it: 10,000
    rules cost a request as little as one does."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(sorted(rules, key=lambda rule: rule.number))
        self.topics = TopicRules(self.rules)
        self._rights: dict[str, frozenset[Right]] = {}
        self._unlimited: dict[str, frozenset[Right]] = {}
        self._firsts: dict[str, dict[Right, int]] = {}
        """By name and right the place of the first rule that grants it whatever the topic."""
        for place, rule in enumerate(self.rules):
            for name in rule.who:
                self._rights[name] = self.rights_of(name) | rule.rights
                if not rule.topics:
                    self._unlimited[name] = self.unlimited_of(name) | rule.rights
                firsts = self._firsts.setdefault(name, {})
                for right in rule.rights - BY_TOPIC if rule.topics else rule.rights:
                    firsts.setdefault(right, place)
        self._gathered: dict[frozenset[str], Grants] = {}

    def rights_of(self, name: str) -> frozenset[Right]:
        """The rights that rules for *name* grant, on some topics at least."""
        return self._rights.get(name, frozenset())

    def unlimited_of(self, name: str) -> frozenset[Right]:
        """The rights that rules for *name* grant that have no topics."""
        return self._unlimited.get(name, frozenset())

    def first(self, names: frozenset[str], right: Right, topic: Topic | None) -> Rule | None:
        """The first rule that grants *names* a right on *topic*."""
        places = [] if topic is None else list(self.topics.places(names, right, topic))
        for name in self._firsts.keys() & names:
            if right in self._firsts[name]:
                places.append(self._firsts[name][right])
        return self.rules[min(places)] if places else None

    def grants(self, names: Iterable[str]) -> Grants:
        """Return what a principal with *names* has; `EVERYBODY` is among them of itself."""
        all_names = frozenset(names) | {EVERYBODY}
        found = self._gathered.get(all_names)
        if found is None:
            if len(self._gathered) >= _GATHERED:
                self._gathered.clear()
            found = self._gathered[all_names] = Grants(self, all_names)
        return found


ALL_GRANTS = Policy([Rule(0, frozenset({EVERYBODY}), ALL_RIGHTS)]).grants([])
"""What everybody has where no rules are set."""


def read_topics(
    expressions: Iterable[str], namespaces: Mapping[str, str]
) -> tuple[TopicPattern, ...]:
    """Read topic expressions of a rule.

    Raises:
        FilterError: One cannot be read.
    """
    declared = tuple(sorted(namespaces.items()))
    return tuple(parse_expression(Expression(text, TOPIC_FULL, declared)) for text in expressions)
