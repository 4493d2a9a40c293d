"""Sources and registrations as rows, on each store."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filters import Expression, dialects
from gateway.model.registrations import Registration
from gateway.model.sources import EndTold, Source, SourceRow, Standing, State, Wanted
from gateway.store import Store, registrations, sources
from mediation.model.delivery_modes import Mode
from mediation.model.messages import EndpointReference
from mediation.model.requests import RegisterPublisher
from mediation.model.versions import Soap, Spec, Version, Wsa
from tests.rigs.stores import on_each_store

EPR = EndpointReference(
    "http://p.example.org/s?1", Wsa.V2004_08, (b"<a/>",), (b'<b xmlns="urn:b">1</b>',), (b"<m/>",)
)
SPEC = Spec(Version.WSE_2004_08, Soap.V1_1, Wsa.V2004_08)
NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)


def source(id_: str, owner: str = "operator") -> Source:
    return Source(
        id_, owner, "http://p.example.org/", SPEC, "w:a//.", "/w:e", (("w", "urn:w"),), 60.5,
        "a/b", 12.5, "cxf", "registration", 7.25, EPR, ("urn:a", "urn:b"), "urn:r",
        Mode.EVENTS, existing=True,
    )  # fmt: skip


STANDING = Standing(
    State.LIVE,
    1.5,
    2.5,
    "key",
    "pending",
    EPR,
    EPR,
    3.5,
    4.5,
    5.5,
    True,
    True,
    2,
    "No.",
    6.5,
    True,
)


async def put(store: Store, row: SourceRow, *, in_all: int = 100) -> bool:
    insert = partial(sources.insert, row=row, of_owner=2, in_all=in_all)
    return bool(await store.submit(insert))


@on_each_store
async def test_a_source_comes_back_as_it_was_put(store: Store) -> None:
    row = SourceRow(source("one"), Wanted.OFF, STANDING, revision=1)
    assert await put(store, row)
    assert await store.submit(sources.load) == [row]
    for key in ("key", "pending"):
        assert await store.submit(partial(sources.find, key=key)) == row
    assert await store.submit(partial(sources.find, key="other")) is None


@on_each_store
async def test_sources_are_limited_by_owner_and_in_all(store: Store) -> None:
    rows = [SourceRow(source(str(number))) for number in range(3)]
    assert [await put(store, row) for row in rows] == [True, True, False]
    others = [SourceRow(source(f"x{number}", owner=str(number))) for number in range(3)]
    assert [await put(store, row, in_all=4) for row in others] == [True, True, False]


@on_each_store
async def test_each_change_has_a_revision_of_its_own(store: Store) -> None:
    assert await put(store, SourceRow(source("one")))
    want = partial(sources.want, id_="one")
    assert await store.submit(partial(want, wanted=Wanted.OFF)) == 2
    assert await store.submit(partial(sources.keep, id_="one", standing=STANDING)) == 3
    assert await store.submit(partial(want, wanted=Wanted.REMOVED)) == 4
    assert await store.submit(partial(want, wanted=Wanted.ON)) == 4
    [row] = await store.submit(sources.load)
    assert (row.wanted, row.standing, row.revision) == (Wanted.REMOVED, STANDING, 4)
    await store.submit(partial(sources.count, came={"one": (3, 8.5), "gone": (1, 9.5)}))
    await store.submit(partial(sources.count, came={"one": (2, 9.5)}))
    assert await store.submit(sources.glance) == {"one": (4, 5, 9.5)}
    await store.submit(partial(sources.end, id_="one", told=EndTold("another", "bye")))
    assert (await store.submit(sources.glance))["one"][0] == 4
    await store.submit(partial(sources.end, id_="one", told=EndTold("key", 'bye "now"')))
    [row] = await store.submit(sources.load)
    assert (row.ended, row.revision) == (EndTold("key", 'bye "now"'), 5)
    # One that is told before Subscribe is answered; of the two, it is the one that matters.
    for key in ("pending", "key"):
        await store.submit(partial(sources.end, id_="one", told=EndTold(key, "bye")))
    [row] = await store.submit(sources.load)
    assert (row.ended, row.revision) == (EndTold("pending", "bye"), 6)
    await store.submit(partial(sources.forget, id_="one"))
    assert await store.submit(partial(want, wanted=Wanted.ON)) is None
    assert await store.submit(partial(sources.keep, id_="one", standing=STANDING)) is None


@on_each_store
async def test_a_registration_comes_back_as_it_was_put(store: Store) -> None:
    topic = Expression("w:a", dialects.TOPIC_SIMPLE, (("w", "urn:w"),))
    one = Registration(
        "key", "id", "owner", SPEC, RegisterPublisher(EPR, (topic,), True), NOW, None
    )
    insert = partial(registrations.insert, of_owner=1, in_all=2)
    assert await store.submit(partial(insert, registration=one))
    assert await store.submit(registrations.load) == [one]
    other = replace(one, key="k2", id="i2")
    assert not await store.submit(partial(insert, registration=other))
    other = replace(other, owner="other")
    assert await store.submit(partial(insert, registration=other))
    third = replace(one, key="k3", id="i3", owner="third")
    assert not await store.submit(partial(insert, registration=third))
    assert await store.submit(partial(registrations.move, id_="id", expires=NOW))
    assert replace(one, expires=NOW) in await store.submit(registrations.load)
    assert await store.submit(partial(registrations.delete, id_="id")) == []
    assert await store.submit(partial(registrations.delete, id_="id")) is None
    assert not await store.submit(partial(registrations.move, id_="id", expires=NOW))


@on_each_store
async def test_a_registration_goes_with_its_sources(store: Store) -> None:
    one = Registration("key", "id", "owner", SPEC, RegisterPublisher(EPR, (), True), NOW)
    insert = partial(registrations.insert, registration=one, of_owner=None, in_all=1)
    assert await store.submit(insert)
    for name, registration in (("a", "id"), ("b", "id"), ("other", "x"), ("operator's", None)):
        put_one = SourceRow(replace(source(name, owner=name), registration=registration))
        assert await put(store, put_one)
    await store.submit(partial(sources.want, id_="b", wanted=Wanted.REMOVED))
    assert await store.submit(partial(registrations.delete, id_="id")) == ["a"]
    rows = await store.submit(sources.load)
    assert {row.source.id for row in rows if row.wanted is Wanted.REMOVED} == {"a", "b"}
    assert (await store.submit(sources.glance))["a"][0] == 2


@on_each_store
async def test_registrations_of_a_publisher_are_found(store: Store) -> None:
    requests = (RegisterPublisher(EPR, (), True), RegisterPublisher(None, (), False))
    for number, request in enumerate(requests):
        one = Registration(f"k{number}", f"{number}", "owner", SPEC, request, NOW)
        insert = partial(registrations.insert, registration=one, of_owner=None, in_all=9)
        assert await store.submit(insert)
    of_publisher = partial(registrations.of_publisher, owner="owner", publisher=EPR.address)
    assert [one.id for one in await store.submit(of_publisher)] == ["0"]
    assert await store.submit(partial(of_publisher, owner="other")) == []


TIMES = st.none() | st.floats(0, 4e9)
REFERENCES = st.none() | st.builds(
    EndpointReference,
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30),
    st.sampled_from(Wsa),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    st.builds(
        Standing,
        state=st.sampled_from(State),
        since=st.floats(0, 4e9),
        due=TIMES,
        key=st.none(),
        pending=st.none(),
        manager=REFERENCES,
        former=REFERENCES,
        expires=TIMES,
        renew=TIMES,
        asked=TIMES,
        paused=st.booleans(),
        plain=st.booleans(),
        failures=st.integers(0, 10**6),
        error=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30),
        error_at=TIMES,
        parting=st.booleans(),
    )
)
async def test_every_standing_is_kept_as_it_is(store: Store, standing: Standing) -> None:
    await store.submit(partial(sources.forget, id_="one"))
    assert await put(store, SourceRow(source("one")))
    await store.submit(partial(sources.keep, id_="one", standing=standing))
    [row] = await store.submit(sources.load)
    assert row.standing == standing
