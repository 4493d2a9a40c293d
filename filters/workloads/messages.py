"""Messages where there is no corpus: auctions after XMark's, events after Windows'."""

import random
from collections.abc import Callable
from xml.sax.saxutils import escape, quoteattr

from filters.workloads.queries import EVENT_NAMESPACE
from filters.workloads.zipf import Zipf

AUCTIONS, EVENTS = "auctions", "events"
FAMILIES = (AUCTIONS, EVENTS)


def messages(family: str, count: int, seed: int) -> list[bytes]:
    """*count* messages of 0.3 to 3 KiB.

    Raises:
        ValueError: The family is unknown.
    """
    makers = {AUCTIONS: _auction, EVENTS: _event}
    if family not in makers:
        raise ValueError(
            f"{family!r} is not a family of messages; the families are {', '.join(FAMILIES)}"
        )
    chance = random.Random(f"{family} {seed}")
    return [makers[family](chance, number).encode() for number in range(count)]


_SYLLABLES = (
    "ba",
    "de",
    "fi",
    "go",
    "lu",
    "mar",
    "nel",
    "or",
    "pi",
    "qua",
    "ris",
    "sto",
    "tan",
    "ul",
    "ven",
    "wo",
    "xi",
    "yar",
    "zed",
)
_WORDS = Zipf([f"{a}{b}{c}" for a in _SYLLABLES for b in _SYLLABLES for c in ("", "s", "r")])
_PEOPLE = Zipf([f"{a}{b}".title() for a in _SYLLABLES for b in _SYLLABLES])
_PLACES = Zipf(
    (
        "United States",
        "Germany",
        "Kenya",
        "Japan",
        "Brazil",
        "Norway",
        "Malta",
        "Chile",
        "Ghana",
        "Peru",
    )
)
_SCHOOLS = ("High School", "College", "Graduate School")
_ANSWERS = ("Yes", "No")
_PAYMENTS = ("Creditcard", "Money order", "Cash", "Personal Check")
_REGIONS = Zipf(("europe", "namerica", "asia", "africa", "samerica", "australia"))


def _words(chance: random.Random, most: int) -> str:
    return " ".join(_WORDS.draw(chance) for _ in range(chance.randint(2, most)))


def _auction(chance: random.Random, number: int) -> str:
    """Make an item, person or auction in the place that it has in XMark's document."""
    draw = chance.random()
    if draw < 0.4:
        return _item(chance, number)
    if draw < 0.65:
        return (
            f'<site><people><person id="person{number}"><name>{_PEOPLE.draw(chance)}</name>'
            f"<address><street>{chance.randint(1, 99)} {_PEOPLE.draw(chance)} St</street>"
            f"<city>{_PEOPLE.draw(chance)}</city><country>{_PLACES.draw(chance)}</country></address>"
            f'<profile income="{chance.randrange(9000, 99000, 500)}">'
            + "".join(
                f'<interest category="category{_draw(chance, 60)}"/>'
                for _ in range(chance.randint(0, 4))
            )
            + f"<education>{chance.choice(_SCHOOLS)}</education>"
            f"<business>{chance.choice(_ANSWERS)}</business><age>{chance.randint(18, 60)}</age>"
            "</profile></person></people></site>"
        )
    kind = "open_auction" if draw < 0.85 else "closed_auction"
    bidders = "".join(
        f"<bidder><date>{_date(chance)}</date><time>{chance.randrange(24):02}:00:00</time>"
        f'<personref person="person{_draw(chance, 500)}"/>'
        f"<increase>{1.5 * _draw(chance, 30):.2f}</increase></bidder>"
        for _ in range(chance.randint(0, 6))
    )
    return (
        f'<site><{kind}s><{kind} id="{kind}{number}"><initial>{_draw(chance, 300)}.00</initial>'
        f"{bidders}<current>{_draw(chance, 900)}.50</current>"
        f'<itemref item="item{_draw(chance, 900)}"/><seller person="person{_draw(chance, 500)}"/>'
        f'<annotation><author person="person{_draw(chance, 500)}"/>'
        f"<description><text>{_words(chance, 40)}</text></description>"
        f"<happiness>{chance.randint(1, 10)}</happiness></annotation>"
        f"<quantity>{_draw(chance, 9)}</quantity>"
        f"<type>{chance.choice(('Regular', 'Featured'))}</type></{kind}></{kind}s></site>"
    )


def _item(chance: random.Random, number: int) -> str:
    region = _REGIONS.draw(chance)
    categories = "".join(
        f'<incategory category="category{_draw(chance, 60)}"/>' for _ in range(chance.randint(1, 5))
    )
    mails = "".join(
        f"<mail><from>{_PEOPLE.draw(chance)}</from><to>{_PEOPLE.draw(chance)}</to>"
        f"<date>{_date(chance)}</date><text>{_words(chance, 30)} "
        f"<keyword>{_words(chance, 3)}</keyword></text></mail>"
        for _ in range(chance.randint(0, 2))
    )
    return (
        f'<site><regions><{region}><item id="item{number}">'
        f"<location>{_PLACES.draw(chance)}</location><quantity>{_draw(chance, 9)}</quantity>"
        f"<name>{_words(chance, 3)}</name>"
        f"<payment>{chance.choice(_PAYMENTS)}</payment>"
        f"<description><parlist><listitem><text>{_words(chance, 30)}</text></listitem>"
        f"<listitem><text><emph>{_WORDS.draw(chance)}</emph> {_words(chance, 20)}</text></listitem>"
        f"</parlist></description><shipping>Will ship {_WORDS.draw(chance)}</shipping>"
        f"{categories}<mailbox>{mails}</mailbox></item></{region}></regions></site>"
    )


def _draw(chance: random.Random, most: int) -> int:
    """A number from 1 to *most*, small ones likelier."""
    return min(most, 1 + int(chance.paretovariate(0.7) - 1))


def _date(chance: random.Random) -> str:
    return f"{chance.randint(1, 12):02}/{chance.randint(1, 28):02}/{chance.randint(1998, 2001)}"


_PROVIDERS = Zipf(
    [
        ("Microsoft-Windows-Security-Auditing", "Security", range(4608, 4800)),
        ("Service Control Manager", "System", range(7000, 7046)),
        ("Microsoft-Windows-Kernel-General", "System", range(1, 25)),
        ("Microsoft-Windows-Sysmon", "Sysmon/Operational", range(1, 27)),
        ("Microsoft-Windows-WindowsUpdateClient", "System", range(16, 48)),
        ("Microsoft-Windows-Windows Defender", "Windows Defender/Operational", range(1000, 1130)),
        ("Microsoft-Windows-TaskScheduler", "TaskScheduler/Operational", range(100, 205)),
        ("Microsoft-Windows-GroupPolicy", "System", range(1085, 1131)),
        ("Application Error", "Application", range(1000, 1003)),
        ("Microsoft-Windows-DNS-Client", "System", range(1000, 1020)),
    ]
)
_PROGRAMS = Zipf(
    [
        rf"C:\Windows\{folder}\{name}.exe"
        for name in ("svchost", "lsass", "services", "cmd", "wmiprvse", "rundll32", "taskhost")
        for folder in ("System32", "SysWOW64", "Temp")
    ]
)
_DATA: dict[str, Callable[[random.Random], str]] = {
    "SubjectUserSid": lambda chance: f"S-1-5-21-{1000 + _draw(chance, 4000)}",
    "SubjectUserName": _PEOPLE.draw,
    "SubjectDomainName": lambda chance: f"SITE{_draw(chance, 40)}",
    "TargetUserName": _PEOPLE.draw,
    "ProcessName": _PROGRAMS.draw,
    "ProcessId": lambda chance: hex(4 * _draw(chance, 4000)),
    "LogonType": lambda chance: str(chance.choice((2, 3, 3, 3, 5, 7, 10))),
    "IpAddress": lambda chance: f"10.{_draw(chance, 20)}.{_draw(chance, 250)}.{_draw(chance, 250)}",
    "IpPort": lambda chance: str(49152 + _draw(chance, 9000)),
    "ObjectName": lambda chance: rf"\Device\{_words(chance, 3).replace(' ', chr(92))}",
    "ShareName": lambda chance: rf"\\*\{_WORDS.draw(chance)}",
    "AccessMask": lambda chance: hex(1 << _draw(chance, 20)),
    "CommandLine": lambda chance: f"{_PROGRAMS.draw(chance)} /{_WORDS.draw(chance)}",
    "ServiceName": _WORDS.draw,
    "Status": lambda chance: f"0x{_draw(chance, 255):08x}",
}


def _event(chance: random.Random, number: int) -> str:
    """Make a record as Windows Event Forwarding delivers it."""
    provider, channel, ids = _PROVIDERS.draw(chance)
    # An id always has the same data, so that filters on both find something.
    event_id = ids[min(len(ids), _draw(chance, 400)) - 1]
    schema = random.Random(event_id)
    names = schema.sample(sorted(_DATA), schema.randint(3, 11))
    data = "".join(f'<Data Name="{name}">{escape(_DATA[name](chance))}</Data>' for name in names)
    when = f"2026-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
    return (
        f'<Event xmlns="{EVENT_NAMESPACE}"><System><Provider Name={quoteattr(provider)}/>'
        f"<EventID>{event_id}</EventID><Version>0</Version><Level>{schema.randint(0, 4)}</Level>"
        f"<Task>{schema.randrange(13000)}</Task><Opcode>0</Opcode>"
        f"<Keywords>0x80{schema.getrandbits(32):014x}</Keywords>"
        f'<TimeCreated SystemTime="{when}T{chance.randrange(24):02}:00:00Z"/>'
        f"<EventRecordID>{number}</EventRecordID><Correlation/>"
        f'<Execution ProcessID="{4 * _draw(chance, 2000)}" ThreadID="{4 * _draw(chance, 2000)}"/>'
        f"<Channel>{escape(channel)}</Channel>"
        f"<Computer>host{_draw(chance, 200)}.example.org</Computer>"
        f"<Security/></System><EventData>{data}</EventData></Event>"
    )
