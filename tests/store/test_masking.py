from __future__ import annotations

from pathlib import Path

import pytest

from nbckpt import SyncConfig, UsageError
from nbckpt.errors import NbckptError
from nbckpt.store import check_no_secret, check_protocol, masked, masked_url, open_store


def test_passwords_and_tokens_are_masked(subtests: pytest.Subtests) -> None:
    rows = [
        ("s3://bucket/a", "s3://bucket/a"),
        ("sftp://me@host:22/a", "sftp://me@host:22/a"),
        ("sftp://me:pw@host:22/a", "sftp://me:***@host:22/a"),
        ("sftp://me:p@w:x@host/a", "sftp://me:***@host/a"),
        ("cannot reach 'ftp://a:b@c/d': ftp://a:b@c/d", "cannot reach 'ftp://a:***@c/d': ftp://a:***@c/d"),
        ("a = 'http://h:80'; b = c@d", "a = 'http://h:80'; b = c@d"),
        ("simplecache::https://:pw@host/a", "simplecache::https://:***@host/a"),
        ("https://h/a?token=abc&x=1", "https://h/a?token=***&x=1"),
        ("https://h/a?x=1&X-Amz-Signature=abc", "https://h/a?x=1&X-Amz-Signature=***"),
        ("see https://h/a?sig=abc' now", "see https://h/a?sig=***' now"),
        ("/a/b@c:d", "/a/b@c:d"),
        ("s3://KEY:SEC/RET@bucket/a@2", "s3://KEY:***@bucket/a@2"),
        ("https://h:80/pkg@v1", "https://h:80/pkg@v1"),
        ("s3://bucket/day:1/a@2", "s3://bucket/day:1/a@2"),
        ("https://ghp_abc@host/a@2", "https://***@host/a@2"),
        ("http://token@host", "http://***@host"),
    ]
    for text, shown in rows:
        with subtests.test(text):
            assert masked(text) == masked(shown) == shown


def test_a_password_in_a_url_may_have_any_character(subtests: pytest.Subtests) -> None:
    hidden = "simplecache::https://host/a?token=***&x=1"
    for secret in ("pw", "it's", 'a"b', "two words", "a@b", "a/b", "/"):
        with subtests.test(secret):
            assert masked_url(f"sftp://me:{secret}@host:22/a b") == "sftp://me:***@host:22/a b"
            assert masked_url(hidden.replace("***", secret)) == hidden


def test_a_store_never_shows_the_password_of_its_url() -> None:
    store = open_store("memory://me:pw'pw pw@place/?token=abc'c")
    store.put("a", b"x")
    assert store.get("a") == b"x"
    assert "pw" not in repr(store)
    assert "abc" not in store.url
    with pytest.raises(NbckptError) as caught:
        store.get("b")
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("url", ["nosuch://me:pw@host/x", "sftp://me:pw@localhost:1/x"])
def test_an_error_never_shows_a_password(url: str) -> None:
    for call in (check_protocol, open_store):
        try:
            call(url)
        except NbckptError as error:
            assert "pw" not in str(error)  # noqa: PT017  not each URL is an error for each


def test_a_password_is_never_stored(tmp_path: Path) -> None:
    check_no_secret("s3://bucket/x", "a file")
    with pytest.raises(UsageError, match=r"a:\*\*\*@b.* would be stored in the experiment's file"):
        SyncConfig(upload_dir="sftp://a:pw@b/c")
    for url in ("sftp://a:it's@b/c", "sftp://a:two words@b/c", "s3://a:k/ey@b/c"):
        with pytest.raises(UsageError, match=r"a:\*\*\*@b.* would be stored in a file"):
            check_no_secret(url, "a file")
