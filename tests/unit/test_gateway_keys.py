"""Keys of a gateway: lines of a file, who a secret is, changes while somebody reads, and what may not be."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqrt.errors import KeysUnusable
from seqrt.gateway.keyfile import KeyFile, change, locked, read, write
from seqrt.gateway.keys import (
    KEY_BYTES,
    PREFIX,
    Key,
    OneKey,
    hash_of,
    is_name,
    new_secret,
    read_keys,
    with_key,
    without_key,
)


def key(name: str, secret: str = "", **limits: object) -> Key:
    return Key(name=name, sha256=hash_of((secret or name).encode()), **limits)  # type: ignore[arg-type]


def file_of(folder: Path, *keys: Key) -> Path:
    path = folder / "keys"
    for one in keys:
        change(path, lambda text, one=one: with_key(text, one, "keys"))  # type: ignore[misc]
    return path


def test_a_secret_is_256_bits_in_letters_that_any_header_carries() -> None:
    made = new_secret(bytes(range(KEY_BYTES)))
    assert made.startswith(PREFIX)
    assert all("!" <= letter <= "~" for letter in made)
    assert len({new_secret(os.urandom(KEY_BYTES)) for _ in range(100)}) == 100
    with pytest.raises(ValueError, match="32 random bytes"):
        new_secret(b"short")


def test_the_text_of_a_file_keeps_its_comments_and_its_order() -> None:
    text = with_key("# of the lab\n", key("a", model="m/x", acts=3, per_minute=60, at_once=2), "keys")
    text = with_key(text, key("b"), "keys")
    assert text.startswith("# of the lab\n{")
    assert [(k.name, k.model, k.acts, k.per_minute, k.at_once) for k in read_keys(text, "keys")] == [
        ("a", "m/x", 3, 60, 2),
        ("b", None, None, None, None),
    ]
    assert without_key(text, "a", "keys").startswith("# of the lab\n{")
    assert [k.name for k in read_keys(without_key(text, "a", "keys"), "keys")] == ["b"]
    assert "secret" not in text


def test_a_line_without_its_end_is_not_glued_to_the_next() -> None:
    text = with_key("", key("a"), "keys").rstrip("\n")
    assert [k.name for k in read_keys(with_key(text, key("b"), "keys"), "keys")] == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("arm-1 abc", "is no key"),
        ("{}", "name"),
        ('{"name": "a", "sha256": "abc"}', "sha256"),
        ('{"name": "a b", "sha256": "%s"}' % ("0" * 64), "name"),
        ('{"name": "a\\n", "sha256": "%s"}' % ("0" * 64), "name"),
        ('{"name": "a", "sha256": "%s\\n"}' % ("0" * 64), "sha256"),
        ('{"name": "a", "sha256": "%s", "acts": 0}' % ("0" * 64), "acts"),
        ('{"name": "a", "sha256": "%s", "acts": true}' % ("0" * 64), "acts"),
        ('{"name": "a", "sha256": "%s", "admin": 1}' % ("0" * 64), "admin"),
        ('{"name": "first", "sha256": "%s"}' % ("0" * 64), "same name as in line 2"),
        ('{"name": "other", "sha256": "%s"}' % hash_of(b"first"), "same key as in line 2"),  # noqa: UP031
    ],
)
def test_a_line_that_is_no_key_is_refused_by_its_number(line: str, what: str) -> None:
    text = with_key("# comment\n", key("first"), "keys") + "\n" + line + "\n"
    with pytest.raises(KeysUnusable, match=what) as raised:
        read_keys(text, "keys")
    assert raised.value.line == 4
    assert str(raised.value).startswith("keys, line 4: ")


@given(st.text(max_size=40))
def test_whatever_a_file_holds_is_keys_or_a_line_refused(text: str) -> None:
    line = None
    try:
        assert all(isinstance(one, Key) for one in read_keys(text, "keys"))
    except KeysUnusable as error:
        line = error.line
    assert (line is None) == all(not row.strip() or row.lstrip().startswith("#") for row in text.splitlines())


def test_a_name_is_taken_once_and_revoking_nobody_names_those_there_are() -> None:
    text = with_key("", key("a"), "keys")
    with pytest.raises(ValueError, match="'a' already"):
        with_key(text, key("a", "another"), "keys")
    with pytest.raises(ValueError, match="there are: a"):
        without_key(text, "b", "keys")


@pytest.mark.parametrize(
    ("name", "good"), [("arm-1", True), ("a@b.c", True), ("", False), ("-a", False), ("a\n", False)]
)
def test_names_are_what_a_log_line_holds_as_one_word(name: str, good: bool) -> None:
    assert is_name(name) is good


def test_a_key_of_one_model_opens_that_one_alone() -> None:
    assert key("a").opens("m/x")
    assert key("a", model="m/x").opens("m/x")
    assert not key("a", model="m/x").opens("m/y")


@pytest.mark.parametrize("secret", [b"", b"wrong", "é".encode(), b"\xff" * 10_000])
def test_only_the_secret_itself_is_known(secret: bytes, tmp_path: Path) -> None:
    ring, one = KeyFile(file_of(tmp_path, key("a", "right"), key("b"))), OneKey(b"right")
    found, known = ring.find(b"right"), one.find(b"right")
    assert found is not None
    assert found.name == "a"
    assert known is not None
    assert ring.find(secret) is None
    assert one.find(secret) is None


def test_hashes_that_begin_alike_are_told_apart(tmp_path: Path) -> None:
    right = hash_of(b"right")
    twin = Key(name="twin", sha256=right[:-1] + ("0" if right[-1] != "0" else "1"))
    for keys in ((twin, key("a", "right")), (key("a", "right"), twin)):
        folder = tmp_path / keys[0].name
        folder.mkdir()
        found = KeyFile(file_of(folder, *keys)).find(b"right")
        assert found is not None
        assert found.name == "a"


def test_a_key_added_or_revoked_counts_at_once_for_whoever_has_the_file_open(tmp_path: Path) -> None:
    path = file_of(tmp_path, key("a"))
    ring = KeyFile(path)
    assert ring.find(b"b") is None
    file_of(tmp_path, key("b"))
    assert ring.find(b"b") is not None
    change(path, lambda text: without_key(text, "a", "keys"))
    assert ring.find(b"a") is None
    assert ring.find(b"b") is not None


def test_a_slip_in_the_file_leaves_the_keys_as_they_were_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = file_of(tmp_path, key("a"))
    ring = KeyFile(path)
    write(path, b"not a key\n")
    assert ring.find(b"a") is not None
    assert ring.find(b"a") is not None
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "line\\x201" in caplog.text
    file_of_text = with_key("", key("b"), "keys").encode()
    write(path, file_of_text)
    assert ring.find(b"a") is None
    assert ring.find(b"b") is not None


def test_a_file_that_is_gone_opens_to_nobody_and_one_that_comes_back_does(tmp_path: Path) -> None:
    path = file_of(tmp_path, key("a"))
    ring = KeyFile(path)
    content = path.read_bytes()
    path.unlink()
    assert ring.find(b"a") is None
    write(path, content)
    assert ring.find(b"a") is not None


def test_a_file_that_is_not_there_says_how_it_is_made(tmp_path: Path) -> None:
    with pytest.raises(KeysUnusable, match="seqrt keys add"):
        KeyFile(tmp_path / "keys")


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
class TestModes:
    def test_the_file_is_nobody_elses_from_its_first_byte(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        modes: list[int] = []
        replace = os.replace

        def watched(source: Path, target: Path) -> None:
            modes.append(stat.S_IMODE(source.stat().st_mode))
            replace(source, target)

        monkeypatch.setattr(os, "replace", watched)
        before = os.umask(0)
        try:
            path = file_of(tmp_path, key("a"))
        finally:
            os.umask(before)
        assert modes == [0o600]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    @pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
    def test_a_file_others_may_write_to_is_refused_with_the_command(self, mode: int, tmp_path: Path) -> None:
        path = file_of(tmp_path, key("a"))
        path.chmod(mode)
        with pytest.raises(KeysUnusable, match="chmod go-w"):
            read(path)

    def test_a_draft_left_behind_by_a_killed_process_is_no_obstacle_and_no_way_in(self, tmp_path: Path) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.write_text("precious")
        (tmp_path / f"keys.{os.getpid()}.new").symlink_to(elsewhere)
        assert [one.name for one in read(file_of(tmp_path, key("a")))] == ["a"]
        assert elsewhere.read_text() == "precious"


def test_a_change_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = file_of(tmp_path, key("a"))
    before = path.read_bytes()
    with pytest.raises(ValueError, match="no key named"):
        change(path, lambda text: without_key(text, "nobody", "keys"))
    assert path.read_bytes() == before
    assert sorted(found.name for found in tmp_path.iterdir()) == ["keys", "keys.lock"]


def test_of_two_writers_at_once_neither_loses_a_key(tmp_path: Path) -> None:
    def add(name: str) -> None:
        for number in range(10):
            change(tmp_path / "keys", lambda text: with_key(text, key(f"{name}{number}"), "keys"))  # noqa: B023

    writers = [threading.Thread(target=add, args=(name,)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(read(tmp_path / "keys")) == 30


def test_who_does_not_wait_for_a_lock_is_told_that_it_is_held(tmp_path: Path) -> None:
    with locked(tmp_path / "keys"), pytest.raises(KeysUnusable, match="in use"), locked(tmp_path / "keys", wait=False):
        pass
    with locked(tmp_path / "keys", wait=False):
        pass


def test_a_folder_that_is_not_there_is_an_error_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(KeysUnusable, match="cannot be written"):
        file_of(tmp_path / "nowhere", key("a"))
