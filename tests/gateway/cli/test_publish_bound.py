"""What ``dragoman publish`` says of sequences that cannot be bound as asked."""

from pathlib import Path

import pytest

from tests.rigs.event_signatures import credentials, key_pem, pem
from tests.rigs.programs import run


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--bound-to", "mole.pem"), "go with --reliable"),
        (("--reliable", "--trust", "mole.pem"), "--trust goes with --bound-to FILE"),
        (("--reliable", "--bound-to", "tls"), "is not https"),
        (("--reliable", "--bound-to", "none.pem"), "--bound-to: none.pem: No such file"),
        (("--reliable", "--bound-to", "public.pem"), "it has no key in PEM"),
        (("--reliable", "--bound-to", "mole.pem", "--trust", "none.pem"), "--trust: none.pem"),
    ],
)
def test_what_it_says(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    (tmp_path / "mole.pem").write_bytes(key_pem(credentials()) + pem(credentials()))
    (tmp_path / "public.pem").write_bytes(pem(credentials()))
    done = run("publish", *words, "-", cwd=tmp_path, stdin=b"<e/>")
    assert done.returncode and says in done.stderr and "Traceback" not in done.stderr
