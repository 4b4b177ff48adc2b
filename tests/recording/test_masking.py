"""Which secrets are found: kinds made up from a seed, a second opinion, false alarms, hostile texts, and properties."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest
from detect_secrets.core.scan import scan_line
from detect_secrets.settings import default_settings
from hypothesis import example, given
from hypothesis import strategies as st
from support.secret_kinds import (
    AREAS,
    ENOUGH,
    FORMS,
    FOUND_BY_0_1,
    SEED,
    draw,
    false_alarms,
    fill,
    found_settings,
    make_samples,
)
from support.sizes import few, pick

from faber_ledger.recording.secrets.mask import MAX_LENGTH, MAX_NAMES, clean_summary, mask_text, mask_tokens
from faber_ledger.recording.secrets.tokens import BODY, MIDDLES, TOKENS

ROOT = Path(__file__).resolve().parents[2]
ROWS = [(rule[0], marker, *rule[2:]) for rule in TOKENS for marker in rule[1]]
SAMPLES = make_samples()
SEEDS = (SEED, 1, 60)  # what is found of each kind must not hang on one secret's letters
KB = 1024
LEAST_KINDS = pick(40, 100)  # of the corpus that the other detector finds: 155 when this was written


# Which kinds are found


@pytest.mark.long
@pytest.mark.parametrize("seed", few(SEEDS, 1))
def test_of_all_kinds_94_in_100_are_found_as_the_threats_say(seed: int) -> None:
    found = {kind: len(settings) >= ENOUGH for kind, settings in found_settings(make_samples(seed)).items()}
    assert [kind for kind in FOUND_BY_0_1 if not found[kind]] == []
    assert sum(found.values()) >= 0.94 * len(found)
    if seed == SEED:
        text = " ".join((ROOT / "docs/internals/THREATS.md").read_text(encoding="utf-8").split())
        assert (all(found.values()), f"all {len(found)} kinds" in text) == (True, True)


def test_every_row_of_the_table_finds_its_tokens() -> None:
    for kind, marker, alphabet, least, most in [(*row, 0)[:5] for row in ROWS]:
        chance = random.Random(f"{SEED} {marker}")
        run = "".join(chance.choices(alphabet.replace("\n", "").strip(".-/=+,~:!@"), k=least))
        run = run[:-2] + ("1a" if not set("1a") - set(alphabet) else run[-2:])
        assert mask_tokens(f"it was {marker}{run}, then") == f"it was [masked: {kind}], then"
        assert mask_tokens(f"it was {marker}{run[: least // 2]}, then") == f"it was {marker}{run[: least // 2]}, then"
        if most == least:
            assert mask_tokens(f"it was {marker}{run}{run}, then") == f"it was {marker}{run}{run}, then"
        assert alphabet is BODY or not most or most >= least


def test_every_token_that_is_known_by_its_middle_is_found() -> None:
    for kind, before, least, most, marker, after, rest in MIDDLES:
        chance = random.Random(f"{SEED} {marker}")
        first = "".join(chance.choices(before.strip(".-/+~_"), k=least - 2)) + ("1a" if "a" in before else "12")
        last = "".join(chance.choices(after.strip(".-/+=~_") or "x", k=rest))
        assert mask_tokens(f"it was {first}{marker}{last}, then") == f"it was [masked: {kind}], then"
        assert least <= most


@pytest.mark.long
def test_what_another_detector_finds_is_found() -> None:
    missed: list[tuple[str, str]] = []
    kinds: set[str] = set()
    with default_settings():
        for sample in SAMPLES[:: pick(3, 1)]:
            shown = mask_text(sample.text)
            for line in sample.text.splitlines():
                values = {found.secret_value or "" for found in scan_line(line)}
                kinds |= {sample.kind for value in values if value and is_secret(value, sample.secrets, sample.text)}
                missed += [
                    (sample.kind, value) for value in values if value and is_secret(value, sample.secrets, shown)
                ]
    assert missed == []
    assert len(kinds) > LEAST_KINDS  # else it has looked at nothing


def is_secret(value: str, secrets: list[str], shown: str) -> bool:
    """Return whether a value is one of the secrets, or of their pieces, and still shown."""
    return value in shown and any(
        secret in value or (value in secret and len(value) * 2 > len(secret)) for secret in secrets
    )


@pytest.mark.parametrize("form", FORMS["missed once"])
def test_what_was_once_not_found_is_masked(form: str) -> None:
    said = fill(form, random.Random(f"{SEED} {form}"))
    around = "We saw this:\n{}\nThen the tests ran." if "\n" in form else "We saw {} there."
    shown = mask_text(around.format(re.sub("[«»]", "", said)))
    assert [secret for secret in re.findall("«(.*?)»", said) if secret in shown] == []


# What is not masked


@pytest.mark.long
@pytest.mark.parametrize("area", few(AREAS, 1))
def test_false_alarms_in_this_repository_are_less_than_one_in_20_kb(area: str) -> None:
    size, alarms = false_alarms(area)
    assert size > 100 * KB
    assert len(alarms) * 20 * KB < size, alarms


@pytest.mark.parametrize(
    "said",
    [
        "token: rotate",
        "build/password-reset",
        "key=value",
        "git -C /tmp/password log",
        "https://host:8080/a@b?page=2&key=name",
        "sk-this-is-the-name-of-a-branch-that-is-long",
        "ghp_ and glpat- begin tokens",
    ],
)
def test_what_a_field_names_stays(said: str) -> None:
    assert mask_tokens(said) == said


@pytest.mark.parametrize("said", FORMS["no secrets"])
def test_what_people_write_stays(said: str) -> None:
    assert mask_text(f"We looked at {said} again.") == f"We looked at {said} again."


@pytest.mark.parametrize("line", FORMS["no secrets, but characters"])
def test_what_lock_files_and_logs_have_stays(line: str) -> None:
    chance = random.Random(f"{SEED} {line}")
    said = "\n".join(fill(line, chance) for _ in range(50))
    assert mask_text(said) == said


# Hostile texts

PIECES: list[str] = FORMS["hostile"]


@pytest.mark.long
@pytest.mark.parametrize("piece", few([piece for at in range(7) for piece in PIECES[at::7]], 9))
def test_the_time_grows_with_the_text_alone(piece: str) -> None:
    """Four times as much takes about four times as long; were it quadratic, sixteen times. (W11)"""
    small, large = (piece * (size // len(piece)) for size in (16 * KB, 64 * KB))
    assert min(ratio(small, large) for _ in range(3)) < 8


def ratio(small: str, large: str) -> float:
    """Return how many times as long the large text takes; what takes no time is not compared."""
    first, second = cpu_time(small), cpu_time(large)
    return second / max(first, 0.002)


def cpu_time(text: str) -> float:
    start = time.process_time()
    mask_text(text)
    return time.process_time() - start


def test_after_more_names_than_anybody_writes_the_rest_is_masked() -> None:
    """So its time is bounded, and nothing that a name leads is left."""
    text = "".join([f"DB_{number}_PASSWORD=kr4!{number}\n" for number in range(MAX_NAMES + 100)])
    masked = mask_text(text)
    assert f"DB_{MAX_NAMES - 1}_PASSWORD=[masked]" in masked
    assert masked.endswith(" [masked: the rest]")
    assert "kr4!" not in masked
    assert mask_text(masked) == masked


# Properties: hypothesis prints what failed, and how to repeat it


def texts() -> st.SearchStrategy[str]:
    """Draw texts of secrets, whole and broken, of what leads them, and of other words."""
    pieces = [
        st.sampled_from([sample.text for sample in SAMPLES]),
        st.sampled_from([sample.secrets[0] for sample in SAMPLES]),
        st.builds(lambda sample, cut: sample.text[:cut], st.sampled_from(SAMPLES), st.integers(0, 60)),
        st.sampled_from(PIECES),
        st.text(max_size=12),
        st.sampled_from([" ", "\n", "=", ": ", '"', "'", "|", "[masked]", "[masked: Key]", "\\n", ", "]),
    ]
    return st.lists(st.one_of(pieces), max_size=8).map("".join)


@given(texts())
def test_masking_twice_is_masking_once(text: str) -> None:
    once = mask_text(text)
    assert mask_text(once) == once
    fields = mask_tokens(text)
    assert mask_tokens(fields) == fields


@given(texts())
@example("pw=ab1x")
@example("pin: 4711")
@example("a://b:c@d.e f")
@example("passphrase: a1b2")
def test_masking_lengthens_no_text_beyond_its_double(text: str) -> None:
    assert len(mask_text(text)) <= 2 * len(text)
    assert len(mask_tokens(text)) <= 2 * len(text)


KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEabc/+\n" * 3_000 + "-----END RSA PRIVATE KEY----- "


@pytest.mark.long
@pytest.mark.parametrize("is_at_end", [False, True])
@pytest.mark.parametrize(("cut", "length", "before"), [(3_000, 9_000, ""), (32_768, 80_000, KEY)])
def test_no_half_of_a_secret_is_left_at_a_cut(cut: int, length: int, before: str, *, is_at_end: bool) -> None:
    """What is before makes room: else what is around the further cut would not be kept."""
    secret = "ghp_" + draw("b62", 36, random.Random(SEED))
    for shift in range(-50, 12, pick(4, 4 if before else 1)):
        first = ("word " * cut)[: cut + shift - len(before)]
        rest = ("tail " * length)[: length - cut]
        text = f"{rest} {secret} {first[::-1]}{before}" if is_at_end else f"{before}{first} {secret} {rest}"
        shown = clean_summary(text)
        assert len(shown) <= MAX_LENGTH
        assert secret[:9] not in shown
        assert secret[-5:] not in shown
