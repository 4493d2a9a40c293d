"""Topics and destinations: injective, total, and no pattern misses a topic."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters import AdapterError
from adapters.broker.destinations import (
    AMQP,
    JMS,
    MAX_OCTETS,
    Destination,
    Destinations,
    Row,
    Wildcards,
    covers,
    overlap,
)
from filters import DEFAULT_TOPIC, Expression, Step, Topic, parse_expression
from filters.dialects import (
    TOPIC_CONCRETE,
    TOPIC_CONCRETE_SET,
    TOPIC_FULL,
    TOPIC_IBM_SIMPLE,
    TOPIC_SIMPLE,
    TOPIC_SYNAPSE,
)
from mediation.tenants import all_topics_of, topic_in

PREFIXES = {"weather": "urn:weather", "x0041": "urn:x"}
ROWS = (
    Row("orders.#", "orders", "urn:orders"),
    Row("*.eu.>", "orders", "urn:eu"),
    Row("#", "legacy"),
    Row("a.#", namespace="urn:a"),
)

ANY_NAME = st.text(min_size=1, max_size=80) | st.sampled_from(
    [
        "a",
        "b",
        "_x0041_",
        "A",
        "_",
        "x",
        "_long",
        "wseTopic",
        "a.b",
        "weather_n_a",
        "*",
        "#",
        "\U0001f300",
    ]
)
ANY_NAMESPACE = (
    st.none() | st.text(min_size=1, max_size=20) | st.sampled_from(list(PREFIXES.values()))
)
ANY_TOPIC = st.builds(
    Topic, st.lists(st.builds(Step, ANY_NAMESPACE, ANY_NAME), min_size=1, max_size=6).map(tuple)
)

# Few of each, so that expressions meet topics; one name is so long that three of it are hashed.
NAMESPACES = (("w", "urn:weather"), ("u", "urn:other"), ("o", "urn:orders"), ("e", "urn:eu"))
NAME = st.sampled_from(["a", "b", "eu", "orders", "wseTopic", "n-" * 40])
TOPIC = st.builds(
    lambda namespace, root, rest: Topic((Step(namespace, root), *rest)),
    st.sampled_from([None, *(uri for _, uri in NAMESPACES)]),
    NAME,
    st.lists(st.builds(Step, st.sampled_from([None, None, None, "urn:weather"]), NAME), max_size=4),
)
PREFIX = st.sampled_from(["", *(f"{prefix}:" for prefix, _ in NAMESPACES)])
FULL = st.lists(
    st.builds(
        "{}{}{}{}".format,
        PREFIX,
        NAME | st.just("*"),
        st.lists(
            st.builds(
                "{}{}".format,
                st.sampled_from(["/", "//"]),
                st.builds("{}{}".format, st.sampled_from(["", "", "w:"]), NAME)
                | st.sampled_from(["*", "."]),
            ),
            max_size=4,
        ).map("".join),
        st.sampled_from(["", "//."]),
    )
    | st.builds("{}//{}".format, PREFIX.filter(bool), NAME | st.just("*")),
    min_size=1,
    max_size=3,
).map("|".join)
PATHS = st.builds("{}{}".format, PREFIX, st.lists(NAME, min_size=1, max_size=4).map("/".join))
EXPRESSION = st.one_of(
    st.builds(Expression, FULL, st.just(TOPIC_FULL), st.just(NAMESPACES)),
    st.builds(
        Expression,
        PATHS,
        st.sampled_from([TOPIC_CONCRETE, TOPIC_CONCRETE_SET, TOPIC_IBM_SIMPLE, TOPIC_SYNAPSE]),
        st.just(NAMESPACES),
    ),
    st.builds(
        Expression,
        PATHS.map(lambda path: path.split("/")[0]),
        st.just(TOPIC_SIMPLE),
        st.just(NAMESPACES),
    ),
)


def broker_matches(pattern: str, name: str, wildcards: Wildcards) -> bool:
    """As the broker does it, by its manual: a word is what stands between dots."""
    if wildcards is JMS:
        assert ">" not in pattern[:-1]
        pattern = pattern.replace(">", "#")
    pieces = [
        "(?:[.][^.]*)*" if word == "#" else ("[.][^.]*" if word == "*" else re.escape(f".{word}"))
        for word in pattern.split(".")
    ]
    return re.fullmatch("".join(pieces), f".{name}", re.DOTALL) is not None


def matched(
    destinations: Destinations, expression: Expression, there: Destination, how: Wildcards
) -> bool:
    return any(
        pattern.exchange == there.exchange and broker_matches(pattern.name, there.name, how)
        for pattern in destinations.patterns(parse_expression(expression), how)
    )


@given(ANY_TOPIC, ANY_TOPIC)
def test_different_topics_have_different_destinations(one: Topic, other: Topic) -> None:
    destinations = Destinations(prefixes=PREFIXES, rows=ROWS)
    assert (destinations.destination(one) == destinations.destination(other)) == (one == other)


@given(ANY_TOPIC, st.sampled_from([(), ROWS]))
def test_a_topic_is_read_back(topic: Topic, rows: tuple[Row, ...]) -> None:
    destinations = Destinations(prefixes=PREFIXES, rows=rows)
    there = destinations.destination(topic)
    assert len(there.name.encode()) <= MAX_OCTETS
    if "._long." in there.name:
        assert len(str(topic).encode()) > 20
        assert destinations.topic(there) is None
    else:
        assert destinations.topic(there) == topic
    if there.exchange is None:
        assert re.fullmatch(r"[A-Za-z0-9._-]+", there.name) or rows


@given(TOPIC, EXPRESSION, st.sampled_from([(), ROWS]))
def test_no_pattern_misses_what_the_expression_matches(
    topic: Topic, expression: Expression, rows: tuple[Row, ...]
) -> None:
    destinations = Destinations(prefixes=PREFIXES, rows=rows)
    there = destinations.destination(topic)
    for how in (AMQP, JMS):
        for pattern in destinations.patterns(parse_expression(expression), how):
            assert len(pattern.name.encode()) <= MAX_OCTETS + 2
        if parse_expression(expression).matches(topic):
            assert matched(destinations, expression, there, how)
        everything = destinations.patterns(None, how)
        assert any(
            pattern.exchange == there.exchange and broker_matches(pattern.name, there.name, how)
            for pattern in everything
        )


@given(TOPIC, st.data())
def test_no_pattern_misses_a_topic_that_is_named(topic: Topic, data: st.DataObject) -> None:
    """The expressions are made of the topic, so that they match."""
    prefix_of = {uri: f"{prefix}:" for prefix, uri in NAMESPACES} | {None: ""}
    words = []
    for position, step in enumerate(topic.steps):
        slash = "" if position == 0 else data.draw(st.sampled_from(["/", "//"]))
        word = f"{prefix_of[step.namespace]}{step.name}"
        wild = f"{prefix_of[step.namespace]}*" if position == 0 else "*"
        words.append(slash + data.draw(st.sampled_from([word, wild])))
    expression = Expression(
        "".join(words) + data.draw(st.sampled_from(["", "//."])), TOPIC_FULL, NAMESPACES
    )
    assert parse_expression(expression).matches(topic)
    for rows in ((), ROWS):
        destinations = Destinations(prefixes=PREFIXES, rows=rows)
        for how in (AMQP, JMS):
            assert matched(destinations, expression, destinations.destination(topic), how)


WORDS = st.lists(st.sampled_from(["a", "b", "*", "#"]), min_size=1, max_size=5).map(tuple)
NAMES = st.lists(st.sampled_from(["a", "b"]), max_size=6).map(tuple)


@given(WORDS, WORDS, NAMES)
def test_what_is_said_of_two_patterns(
    one: tuple[str, ...], other: tuple[str, ...], name: tuple[str, ...]
) -> None:
    if covers(one, name) and covers(other, name):
        assert overlap(one, other)
    if covers(one, other) and covers(other, name):
        assert covers(one, name)
    if name:
        assert covers(one, name) == broker_matches(".".join(one), ".".join(name), AMQP)


def patterns(
    text: str, how: Wildcards = AMQP, dialect: str = TOPIC_FULL, rows: tuple[Row, ...] = ()
) -> set[str]:
    destinations = Destinations(prefixes=PREFIXES, rows=rows)
    found = destinations.patterns(parse_expression(Expression(text, dialect, NAMESPACES)), how)
    return {f"{one.exchange}:{one.name}" if one.exchange else one.name for one in found}


@pytest.mark.parametrize(
    ("text", "amqp", "jms"),
    [
        pytest.param("w:a/b", {"dragoman.weather.a.b"}, {"dragoman.weather.a.b"}, id="a topic"),
        pytest.param(
            "w:a/*",
            {"dragoman.weather.a.*", "dragoman.weather._long.*"},
            {"dragoman.weather.a.*", "dragoman.weather._long.*"},
            id="children",
        ),
        pytest.param(
            "w:a//b",
            {"dragoman.weather.a.#.b", "dragoman.weather._long.*"},
            {"dragoman.weather.a.>", "dragoman.weather._long.*"},
            id="descendants",
        ),
        pytest.param(
            "a//.|a|a/b",
            {"dragoman.adhoc.a.#", "dragoman.adhoc._long.*"},
            {"dragoman.adhoc.a.>", "dragoman.adhoc._long.*"},
            id="a subtree and what it holds",
        ),
    ],
)
def test_patterns(text: str, amqp: set[str], jms: set[str]) -> None:
    assert patterns(text) == amqp
    assert patterns(text, JMS) == jms


def test_patterns_of_a_dialect_without_namespaces() -> None:
    found = {"dragoman.*.a", "dragoman.*._long.*"}
    assert patterns("x:a", dialect=TOPIC_IBM_SIMPLE) == found
    assert patterns("a", JMS, dialect=TOPIC_IBM_SIMPLE) == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("o:orders/new", "orders:orders.new", id="one destination"),
        pytest.param("o:*//.", "orders:orders.#", id="no more than the row has"),
        pytest.param("o:orders/*", "orders:orders.*", id="less than the row has"),
        pytest.param("e:fr/eu/x", "orders:fr.eu.x", id="another row of the exchange"),
        pytest.param("a//.", "legacy:a.#", id="no namespace"),
    ],
)
def test_patterns_of_destinations_that_exist(text: str, expected: str) -> None:
    found = patterns(text, rows=ROWS)
    assert {one for one in found if not one.startswith("dragoman.")} == {expected}


def test_rows() -> None:
    destinations = Destinations(prefixes=PREFIXES, rows=ROWS)
    new = Topic((Step("urn:orders", "orders"), Step(None, "new")))
    assert destinations.destination(new) == Destination("orders.new", "orders")
    assert destinations.topic(Destination("orders.new", "orders")) == new
    assert destinations.topic(Destination("fr.eu", "orders")) == Topic(
        (Step("urn:eu", "fr"), Step(None, "eu"))
    )
    assert destinations.topic(Destination("other", "orders")) is None
    # The first row that fits decides what it means, so this topic cannot be published there.
    hidden = Topic((Step("urn:eu", "orders"), Step(None, "eu"), Step(None, "x")))
    assert destinations.destination(hidden).exchange is None
    odd = destinations.topic(Destination("a..b", "legacy"))
    assert odd is not None and [step.name for step in odd.steps] == ["a", "_x_", "b"]


def test_the_default_topic() -> None:
    destinations = Destinations()
    assert destinations.destination(None) == destinations.destination(DEFAULT_TOPIC)
    assert destinations.topic(destinations.destination(None)) == DEFAULT_TOPIC
    assert destinations.destination(None).name == "dragoman.adhoc.wseTopic"


def test_a_native_destination_is_read_leniently() -> None:
    destinations = Destinations()
    topic = destinations.topic(Destination("dragoman.adhoc.my_topic.a b"))
    assert topic == Topic((Step(None, "my_topic"), Step(None, "a b")))
    for name in ("dragoman", "dragoman.adhoc", "dragoman.adhoc..", "dragoman.nobody.a", "other.a"):
        assert destinations.topic(Destination(name)) is None


def test_a_namespace_is_known_once_somebody_wants_it() -> None:
    topic = Topic((Step("urn:other", "a"), Step(None, "b")))
    there = Destinations().destination(topic)
    fresh = Destinations()
    assert fresh.topic(there) is None
    fresh.patterns(parse_expression(Expression("u:a", TOPIC_FULL, NAMESPACES)), AMQP)
    assert fresh.topic(there) == topic


@pytest.mark.parametrize(
    ("root", "prefixes", "rows"),
    [
        pytest.param("a_b", {}, (), id="a root with an underscore"),
        pytest.param("a..b", {}, (), id="a root with an empty word"),
        pytest.param("r", {"adhoc": "urn:x"}, (), id="the prefix of no namespace"),
        pytest.param("r", {"n" + "a" * 16: "urn:x"}, (), id="a prefix like a derived one"),
        pytest.param("r", {"a": "urn:x", "b": "urn:x"}, (), id="two prefixes"),
        pytest.param("r", {"a.b": "urn:x"}, (), id="a prefix of two words"),
        pytest.param("r", {}, (Row("a..b"),), id="a pattern with an empty word"),
        pytest.param("r", {}, (Row("a*.b"),), id="a wildcard within a word"),
        pytest.param("r", {}, (Row("a", ""),), id="an exchange without name"),
    ],
)
def test_what_cannot_be_configured(
    root: str, prefixes: dict[str, str], rows: tuple[Row, ...]
) -> None:
    with pytest.raises(AdapterError):
        Destinations(root, prefixes, rows)


@given(ANY_TOPIC, st.from_regex("[a-z][a-z0-9-]{0,31}", fullmatch=True))
def test_destinations_of_tenants(topic: Topic, tenant: str) -> None:
    """The tenant is in each of them, and none is that of another's; rows have none of them."""
    destinations = Destinations(prefixes=PREFIXES, rows=(Row("#"),))
    there = destinations.destination(topic_in(tenant, topic))
    assert there.exchange is None
    assert there.name.startswith(f"dragoman._tenant.{tenant}.")
    assert len(there.name) <= MAX_OCTETS
    assert destinations.tenant(there) == tenant
    assert destinations.topic(there) in (topic_in(tenant, topic), None, _as_row(there))
    assert destinations.tenant(destinations.destination(topic)) == ""
    pattern = parse_expression(all_topics_of(tenant))
    for wildcards, any_ in ((AMQP, "#"), (JMS, ">")):
        found = destinations.patterns(pattern, wildcards)
        words = {tuple(one.name.replace(any_, "#").split(".")) for one in found}
        assert any(covers(one, tuple(there.name.split("."))) for one in words)


def _as_row(there: Destination) -> Topic:
    """What a row that has all makes of it, where its name is a hash."""
    return Topic(tuple(Step(None, word) for word in there.name.split(".")))
