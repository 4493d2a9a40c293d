"""What was learnt of a chain counts only while all of its certificates are valid."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import given
from hypothesis import strategies as st

from mediation.certificate_chains import ValidChains, is_valid

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(begins: int, ends: int) -> x509.Certificate:
    """One that is valid for these days from `NOW`."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name)
    builder = builder.public_key(KEY.public_key()).serial_number(1)
    builder = builder.not_valid_before(NOW + timedelta(begins))
    return builder.not_valid_after(NOW + timedelta(ends)).sign(KEY, SHA256())


CHAINS = [
    [certificate(0, 10)],
    [certificate(0, 10), certificate(3, 5)],
    [certificate(4, 6), certificate(0, 10), certificate(0, 5)],
]


@given(st.lists(st.tuples(st.sampled_from(range(3)), st.integers(-1, 11)), max_size=20))
def test_a_chain_is_known_while_all_of_it_is_valid(shown: list[tuple[int, int]]) -> None:
    chains: ValidChains[int, int] = ValidChains()
    checked: list[int] = []
    known: set[int] = set()
    for number, day in shown:
        chain, now = CHAINS[number], NOW + timedelta(day)

        def check(number: int = number) -> tuple[int, list[x509.Certificate]]:
            checked.append(number)
            return number, CHAINS[number]

        del checked[:]
        assert chains.learn(number, now, check) == number
        valid = all(is_valid(one, now) for one in chain)
        assert checked == ([] if number in known and valid else [number])
        known.add(number)


def test_a_refusal_is_not_kept_and_what_is_kept_is_bounded() -> None:
    chains: ValidChains[int, int] = ValidChains(2)
    checked: list[int] = []

    def learn(number: int) -> None:
        def check() -> tuple[int, list[x509.Certificate]]:
            checked.append(number)
            if number < 0:
                raise ValueError
            return number, CHAINS[0]

        chains.learn(number, NOW, check)

    for _ in range(2):
        with pytest.raises(ValueError):
            learn(-1)
    for number in (1, 2, 1, 3, 3, 1):
        learn(number)
    assert checked == [-1, -1, 1, 2, 3, 1]
