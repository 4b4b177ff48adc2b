"""A server's address: where it comes from, and that no password of it is ever printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.project import Project

from faber_ledger.ledger.command_errors import UsageFailed
from faber_ledger.postgres.address import Address, find_address

PATH = "/home/alice/.config/faber-ledger/config.json"
SECRET = "hunter2%/x"
QUOTED = "hunter2%25%2Fx"


def test_the_option_comes_before_the_variable_and_that_before_the_users_configuration() -> None:
    variable, configured = {"FABER_LEDGER_URL": "postgresql://two/b"}, "postgres://three/c"
    found = find_address("postgresql://one/a", variable, configured, PATH)
    assert str(found) == "postgresql://one/a"
    found = find_address(None, variable, configured, PATH)
    assert str(found) == "postgresql://two/b"
    found = find_address(None, {"FABER_LEDGER_URL": ""}, configured, PATH)
    assert str(found) == "postgresql://three/c"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://alice:{QUOTED}@db/ledger",
        f"postgresql://alice@db/ledger?password={QUOTED}",
        f"postgresql://alice@db/ledger?sslpassword={QUOTED}",
    ],
)
def test_a_password_in_the_option_is_refused_and_elsewhere_kept_to_itself(url: str) -> None:
    with pytest.raises(UsageFailed, match="has a password") as raised:
        find_address(url, {}, None, PATH)
    for place in ("FABER_LEDGER_URL", "user's configuration", "PGPASSWORD", "pgpass"):
        assert place in raised.value.hint
    address = find_address(None, {"FABER_LEDGER_URL": url}, None, PATH)
    assert SECRET in address.parameters.values()
    said = [str(address), repr(address), raised.value.message, raised.value.hint]
    assert not any("hunter2" in one for one in said)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://alice@/ledger?host=/run/postgresql&port=5433",
        "postgresql://alice@[::1]:5433/ledger",
        "postgresql://alice@one,two:5433/ledger?sslmode=verify-full&sslrootcert=/ca.pem&target_session_attrs=any",
        "postgresql://alice@db/ledger?hostaddr=192.0.2.1",
    ],
)
def test_a_shown_url_leads_to_the_same_place(url: str) -> None:
    address = find_address(url, {}, None, PATH)
    assert find_address(address.with_options, {}, None, PATH).parameters == address.parameters


def test_a_message_is_one_line_without_the_passwords_that_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "letmein")
    address = Address({"host": "db", "password": SECRET})
    said = address.screen(f"FATAL: {SECRET}\n\n\tand letmein \x1b[31m\u202e")
    assert said == "FATAL: ***; and *** \\x1b[31m\\u202e"


@pytest.mark.parametrize("secret", ["z", "o", "role", "a+b"])
def test_a_password_is_hidden_as_a_whole_word_alone(secret: str) -> None:
    address = Address({"user": "zoe", "host": "db", "password": secret})
    said = address.screen(f"the roles zoe_{secret} and role_zoe are permitted, {secret} ({secret}) '{secret}'.")
    assert said == f"the roles zoe_{secret} and role_zoe are permitted, *** (***) '***'."


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:pw@db/ledger?sslmode=require&sslpassword=x", "postgresql://ann@db/ledger?sslmode=require"),
        ("postgresql://ann@db:5433/ledger", "postgresql://ann@db:5433/ledger"),
    ],
)
def test_an_invitation_keeps_the_options_that_are_no_secrets(url: str, shown: str) -> None:
    assert find_address(None, {"FABER_LEDGER_URL": url}, None, PATH).with_options == shown


# A URL whose password libpq would read as a host is refused by every command, and no command prints a part of it.


PROJECT = "01K0000000000000000000PRJ1"
AMBIGUOUS = [
    "ann:hun/ter2@127.0.0.1:1/ledger",
    "ann:hun/ter2@127.0.0.1",
    "ann:hun@ter2@127.0.0.1:1/ledger",
    "ann:hun@hun@127.0.0.1:1/ledger",
    "ann:1234/ter2@127.0.0.1/ledger",
    "ann:hun/ter2",
    "ann:ter2",
    "ann:hun?ter2=@127.0.0.1:1/hun@ledger",
    "127.0.0.1:1?password=hun@ter2",
    "127.0.0.1:1/ledger?password=hun@ter2",
    "127.0.0.1:hun,127.0.0.2:ter2/ledger",
]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project.made(tmp_path / "project")
    made.write(".fractary/faber/ledger.json", json.dumps({"project": PROJECT}))
    return made


@pytest.mark.parametrize("rest", AMBIGUOUS)
def test_an_ambiguous_url_is_refused_and_not_repeated(project: Project, rest: str) -> None:
    url = f"postgresql://{rest}"
    project.configure(url=url)
    fleet = project.faber("fleet")
    assert fleet.returncode == 2
    assert "is ambiguous as a PostgreSQL URL" in fleet.stderr
    assert "%2F" in fleet.stderr
    for word in ("hun", "ter2"):
        assert word not in fleet.stdout + fleet.stderr
