"""The key with which passwords of sources are encrypted."""

import stat
from pathlib import Path

import pytest

from filters import Refused
from gateway.security.password_cipher import PasswordCipher


def test_what_was_encrypted_is_decrypted_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "key"
    sealed = [PasswordCipher(path).encrypt("a \u00fc b") for _ in range(2)]
    assert sealed[0] != sealed[1] and "a" not in path.name
    assert [PasswordCipher(path).decrypt(one) for one in sealed] == ["a \u00fc b"] * 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


KEYS = [
    pytest.param(None, id="no key"),
    pytest.param(b"", id="an empty key"),
    pytest.param(b"x" * 44, id="no key at all"),
    pytest.param(b"A" * 43 + b"=", id="another key"),
]


@pytest.mark.parametrize("key", KEYS)
def test_another_key_is_told(tmp_path: Path, key: bytes | None) -> None:
    path = tmp_path / "key"
    sealed = PasswordCipher(path).encrypt("secret")
    path.unlink()
    if key is not None:
        path.write_bytes(key)
    with pytest.raises(Refused, match="key") as refused:
        PasswordCipher(path).decrypt(sealed)
    assert "secret" not in refused.value.text


def test_a_key_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be written"):
        PasswordCipher(tmp_path / "none" / "key").encrypt("secret")
