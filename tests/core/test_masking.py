"""Masking: command lines, cells and patches are kept without the values of secrets."""

from __future__ import annotations

import pytest

from nbckpt.core.masking import masked_command, masked_remote, masked_text
from nbckpt.provenance.patches import cut, masked_patch, masked_places, unmasked

PATCH = b"""diff --git a/a.py b/a.py
index 1..2 100644
--- a/a.py
+++ b/a.py
@@ -1,3 +1,3 @@ def login(token="inhead"):
 key = "kept-line"
-password = "removed-line"
+password = "added-line"
 x = 1
diff --git a/b.ini b/b.ini
--- a/b.ini
+++ b/b.ini
@@ -1 +1,2 @@
 a = 1
+--- token = plain-value
"""


def test_command_lines_lose_the_values_of_secrets(subtests: pytest.Subtests) -> None:
    rows = [
        (["--token", "abc"], ["--token", "***"]),
        (["--api-key=abc"], ["--api-key=***"]),
        (["TOKEN=abc", "x"], ["TOKEN=***", "x"]),
        (["--password", "1234"], ["--password", "***"]),
        (["--max-tokens", "256"], ["--max-tokens", "256"]),
        (["--keyboard", "qwerty"], ["--keyboard", "qwerty"]),
        (["s3://me:pass@host/x?sig=1"], ["s3://me:***@host/x?sig=***"]),
        (["ghp_0123456789abcdefghij"], ["***"]),
        (["--token", "--other"], ["--token", "--other"]),
    ]
    for words, shown in rows:
        with subtests.test(str(words)):
            assert masked_command(words) == shown


def test_source_code_loses_quoted_secrets(subtests: pytest.Subtests) -> None:
    lines = [
        'token = "SECRET"',
        "login(password='SECRET')",
        'os.environ["API_KEY"] = "SECRET"',
        'os.environ.setdefault("API_KEY", "SECRET")',
        'apiKey: str = f"SECRET"',
        '{"aws_secret_access_key": "SECRET"}',
        '"token = \\"SECRET\\"\\n",',
        'keys = ["SECRET", "SECRET"]',
        'password = "a\\"SECRET"',
        'header = "Authorization: Bearer SECRETSECRET"',
        'url = "https://me:SECRET@host"',
        "-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----",
    ]
    for line in lines:
        masked = masked_text(line, is_code=True)
        with subtests.test(line):
            assert "SECRET" not in masked
            assert "***" in masked
            assert masked.count("\n") == line.count("\n")


def test_source_code_without_secrets_stays() -> None:
    lines = [
        "sorted(rows, key=len)",
        'tokenizer = "bert"',
        "for key in keys:",
        'x = row["key"]',
        'monkey = "x"',
    ]
    assert [masked_text(line, is_code=True) for line in lines] == lines


def test_other_files_lose_bare_values_too() -> None:
    for line in ("PASSWORD=SECRET", "token: SECRET", "export API_KEY=SECRET"):
        assert "SECRET" not in masked_text(line, is_code=False), line


def test_remotes_lose_credentials() -> None:
    urls = {
        "https://ghp_token@example.org/a.git": "https://***@example.org/a.git",
        "https://me:pass@example.org/a.git": "https://***@example.org/a.git",
        "git@example.org:a.git": "git@example.org:a.git",
        "ssh://git:pass@example.org/a.git": "ssh://git:***@example.org/a.git",
    }
    assert {url: masked_remote(url) for url in urls} == urls


def test_a_patch_loses_secrets_and_keeps_its_lines() -> None:
    masked = masked_patch(PATCH)
    for secret in (b"inhead", b"kept-line", b"removed-line", b"added-line", b"plain-value"):
        assert secret not in masked
    assert masked.count(b"\n") == PATCH.count(b"\n")
    assert masked_places(masked) == ["a.py:2", "b.ini:2"]


def test_a_masked_patch_gets_the_lines_of_the_commit_back() -> None:
    files = {"a.py": ['key = "kept-line"', 'password = "removed-line"', "x = 1"], "b.ini": ["a = 1"]}
    whole = unmasked(masked_patch(PATCH), files.__getitem__)
    assert b' key = "kept-line"\n-password = "removed-line"\n+password = "***"\n' in whole


def test_a_long_patch_is_cut_between_files() -> None:
    first = PATCH.index(b"diff --git a/b.ini")
    assert cut(PATCH, len(PATCH)) == (PATCH, {"a.py", "b.ini"})
    assert cut(PATCH[: first + 50], first + 40) == (PATCH[:first], {"a.py"})


def test_a_long_line_is_masked_in_linear_time() -> None:
    for part in ("a-", "key=", 'x="a",', "key((", 'token="'):
        assert len(masked_text(part * 20_000, is_code=False)) > 0
