"""Secrets of many kinds, made up from a seed: `python -m support.secret_kinds [SEED]` says which kinds are found.

tests/fixtures/secrets.json has their forms. No secret stands there: each is put together at run time. In a form, « and
» enclose what must not stay, and `{url:27}` stands for 27 random characters of an alphabet.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from faber_ledger.recording.secrets.mask import mask_text

SEED = 20
DRAWS = 3  # secrets of each kind
LARGE, SMALL, DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "0123456789"
ALPHABETS = {
    "num": DIGITS,
    "hex": DIGITS + "abcdef",
    "low": DIGITS + SMALL,
    "let": SMALL,
    "up": DIGITS + LARGE,
    "b32": LARGE + "234567",
    "b62": DIGITS + SMALL + LARGE,
    "url": DIGITS + SMALL + LARGE + "_-",
    "b64": DIGITS + SMALL + LARGE + "+/",
}
SEASONS = ("Winter", "Sommer", "Herbst", "Sunset", "Autumn", "Berlin", "Garten", "Tiger")
WORDS = (
    *("legal", "winner", "thank", "year", "wave", "sausage", "worth", "useful", "abandon", "ability", "able", "about"),
    *("above", "absent", "absorb", "abstract", "absurd", "abuse", "access", "acid", "acoustic", "acquire", "across"),
)
ROOT = Path(__file__).resolve().parents[2]
FORMS: dict[str, Any] = json.loads((ROOT / "tests/fixtures/secrets.json").read_text(encoding="utf-8"))
MISSED_BY_0_1: dict[str, str] = FORMS["missed by 0.1.0"]  # the kinds that it recorded as they were
FOUND_BY_0_1: dict[str, str] = FORMS["found by 0.1.0"]  # those of its rules, and the forms that its tests name
# How what is said stands in a text.
SETTINGS = {
    "prose": "While testing we came upon this: {}\nNext: the tests.",
    "code": "    # {}\n    run(tests)\n",
    "log": "2026-01-05T14:30:22.123Z INFO worker[4711]: {} (3 ms)",
    "JSON": None,
    "table": "| step | said | result |\n|---|---|---|\n| build | {} | done |",
}
# Where there are no secrets, but in what is about them.
AREAS = {
    "docs": r"(?!tests/).*\.md$",
    "code": r".*\.(py|toml|sh)$|Makefile$",
    "logs": r".*\.(jsonl|json|txt|log|html|csv)$",
}
ABOUT_SECRETS = ("test_summaries.py", "test_masking.py", "secrets.json", "test_guessed_secrets.py")
ENOUGH = 4  # settings in which a kind is found


class Sample(NamedTuple):
    """A text with secrets."""

    kind: str
    setting: str
    text: str
    secrets: list[str]


def make_samples(seed: int = SEED) -> list[Sample]:
    """Return each kind in each setting, with secrets made up from a seed."""
    return [
        sample
        for kind, form in {**MISSED_BY_0_1, **FOUND_BY_0_1}.items()
        for number in range(DRAWS)
        for sample in _in_settings(kind, form, random.Random(f"{seed} {number} {kind}"))
    ]


def _in_settings(kind: str, form: str, chance: random.Random) -> list[Sample]:
    said = fill(form, chance)
    secrets = re.findall("«(.*?)»", said, re.DOTALL)
    bare = said.replace("«", "").replace("»", "")
    samples = []
    for setting, around in SETTINGS.items():
        text = around.replace("{}", bare) if around else json.dumps({"step": "build", "said": bare, "n": 3})
        samples.append(Sample(kind, setting, text, secrets))
    return samples


def fill(form: str, chance: random.Random) -> str:
    """Return a form with made-up characters in its fields."""
    return re.sub(r"\{(\w+)(?::(\d+))?\}", lambda field: draw(field[1], int(field[2] or 0), chance), form)


def draw(name: str, count: int, chance: random.Random) -> str:
    """Return made-up characters for a field of a form."""
    if name == "uuid":
        return "-".join(["".join(chance.choices(ALPHABETS["hex"], k=size)) for size in (8, 4, 4, 4, 12)])
    if name == "typed":
        return chance.choice(SEASONS) + "".join(chance.choices(DIGITS, k=4))
    if name == "word":
        return chance.choice(WORDS[:8])
    if name == "words":
        return " ".join(chance.choices(WORDS, k=count))
    made = "".join(chance.choices(ALPHABETS[name], k=count))
    is_lacking = name not in ("num", "let") and 8 <= count < 24 and made.isalpha()
    return draw(name, count, chance) if is_lacking else made  # one in a hundred has no digit: those may be missed


def is_masked(sample: Sample) -> bool:
    """Return whether nothing of a sample's secrets is left that would help to guess them: no third of one."""
    shown = mask_text(sample.text)
    return not any(
        line[start : start + size] in shown
        for secret in sample.secrets
        for line in secret.splitlines()
        for size in [max(4, len(line) // 3)]
        for start in range(len(line) - size + 1)
    )


def found_settings(samples: list[Sample]) -> dict[str, list[str]]:
    """Return the settings in which each kind is found: in those every secret that was made up is masked."""
    missed = {(sample.kind, sample.setting) for sample in samples if not is_masked(sample)}
    kinds = dict.fromkeys([sample.kind for sample in samples])
    return {kind: [setting for setting in SETTINGS if (kind, setting) not in missed] for kind in kinds}


def false_alarms(area: str) -> tuple[int, list[str]]:
    """Return how many characters this repository's files of a kind have, and where something in them is masked."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    size, alarms = 0, []
    for name in names:
        path = ROOT / name
        if not re.match(AREAS[area], name) or path.name in ABOUT_SECRETS or not path.is_file() or path.is_symlink():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        size += len(text)
        alarms += [name] * (mask_text(text).count("[masked") - text.count("[masked"))
    return size, alarms


def say_figures(seed: int) -> str:
    """Return how many kinds are found, and which are not."""
    found = found_settings(make_samples(seed))
    lines = [f"seed {seed}, {len(found)} kinds, {DRAWS} secrets of each in {len(SETTINGS)} settings"]
    for name, kinds in (("recorded as they were by 0.1.0", MISSED_BY_0_1), ("masked by 0.1.0", FOUND_BY_0_1)):
        count = len([kind for kind in kinds if len(found[kind]) >= ENOUGH])
        lines.append(f"{name}: {count} of {len(kinds)} found")
    whole = len([kind for kind in found.values() if len(kind) >= ENOUGH])
    lines.append(f"all: {whole} of {len(found)} found, {whole / len(found):.1%}")
    for kind, settings in found.items():
        if len(settings) < len(SETTINGS):
            lines.append(f"  {kind}: not in {', '.join([name for name in SETTINGS if name not in settings])}")
    for area in AREAS:
        size, alarms = false_alarms(area)
        lines.append(f"{area}: {len(alarms)} false alarms in {size // 1024} KB")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(say_figures(int(sys.argv[1]) if len(sys.argv) > 1 else SEED) + "\n")
