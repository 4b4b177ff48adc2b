"""Secrets of many kinds, made up from a seed: `python -m support.secret_kinds [SEED]` says which kinds are found.

No secret stands here: each is put together at run time. In a form, « and » enclose what must not stay, and `{url:27}`
stands for 27 random characters of an alphabet.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

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
# The kinds that 0.1.0 recorded as they were.
MISSED_BY_0_1 = {
    "AWS secret key": "The AWS credentials are AKIA{b32:16} / «{b64:40}»",
    "Slack app-level token": "app «xapp-1-A{up:10}-{num:13}-{hex:64}»",
    "Discord webhook": "posts to https://discord.com/api/webhooks/{num:18}/«{url:68}»",
    "Teams webhook": "posts to https://acme.webhook.office.com/webhookb2/{uuid}@{uuid}/IncomingWebhook/«{hex:32}»/{uuid}",
    "Stripe test key": "key «sk_test_{b62:24}»",
    "Stripe webhook secret": "Stripe signs with «whsec_{b62:32}»",
    "Google OAuth refresh token": "refreshes with «1//0{url:100}»",
    "Google OAuth access token": "calls with «ya29.{url:120}»",
    "Azure client secret": "The app's secret value «{b62:3}8Q~{url:34}»",
    "Azure SAS": "https://acme.blob.core.windows.net/c?sv=2022-11-02&sig=«{b62:43}»%3D",
    "Docker Hub token": "docker login -u acme -p «dckr_pat_{url:27}»",
    "Docker config auth": '"auth": "«{b62:40}»"',
    "MySQL -p option": "ran mysql -u root -p«Tr0ub4dor{num:1}{b62:4}» acme",
    "Cookie": "Cookie: sessionid=«{b62:32}»",
    "Set-Cookie": "Set-Cookie: connect.sid=s%3A«{b62:32}.{b62:43}»; Path=/",
    "Rails master key": "config/master.key holds «{hex:32}»",
    "private key's body": "the key's body is «MIIEvQIBADANBgkqhkiG9w0BAQEFAASC{b64:400}»",
    "kubeconfig client-key-data": "client-key-data: «LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQo{b64:300}»",
    "Terraform Cloud token": "TFE uses «{b62:14}.atlasv1.{b62:67}»",
    "Vault token": "vault login «hvs.{b62:90}»",
    "Vault legacy token": "vault login «s.{b62:24}»",
    "Vault unseal key": "Unseal Key 1: «{b64:43}»=",
    "Mailgun key": "mail «key-{hex:32}»",
    "Shopify token": "shop «shpat_{hex:32}»",
    "Square token": "sq «EAAA{url:60}»",
    "Heroku key": "Heroku key is «{uuid}»",
    "Datadog app key": "Datadog app key «{hex:40}»",
    "New Relic key": "nr «NRAK-{up:27}»",
    "Sentry token": "sentry «sntrys_{b62:120}»",
    "Linear key": "lin «lin_api_{b62:40}»",
    "Notion token": "notion «secret_{b62:43}»",
    "Notion token, new": "notion «ntn_{b62:46}»",
    "Atlassian token": "jira «ATATT3xFfGF0{url:160}={hex:8}»",
    "Databricks token": "dbx «dapi{hex:32}»",
    "Supabase token": "supa «sbp_{hex:40}»",
    "Grafana token": "grafana «glsa_{b62:32}_{hex:8}»",
    "Replicate token": "rep «r8_{b62:37}»",
    "Fly.io token": "fly «fo1_{b62:43}»",
    "Netlify token": "netlify «nfp_{b62:36}»",
    "Cloudflare token": "cloudflare «{b62:40}»",
    "Firebase FCM key": "fcm «AAAA{url:7}:APA91b{url:134}»",
    "Pulumi token": "pul «pul-{hex:40}»",
    "Doppler token": "dop «dp.pt.{b62:43}»",
    "1Password service account": "op «ops_eyJ{b62:250}»",
    "Bitbucket app password": "bb «ATBB{b62:32}»",
    "CircleCI token": "cci «CCIPAT_{b62:22}_{hex:40}»",
    "Airtable token": "at «pat{b62:14}.{hex:64}»",
    "Asana token": "asana «1/{num:16}:{hex:32}»",
    "Facebook token": "fb «EAAC{b62:150}»",
    "Okta SSWS": "Authorization: SSWS «00{url:40}»",
    "sshpass -p": "sshpass -p «{typed}x» ssh root@x",
    "sshpass -p, quoted": "sshpass -p '«{typed} 7!»' ssh root@x",
    "password in prose": "The admin password is «correct-{word}»",
    "password, short": "password: «abc{num:2}»",
    "passphrase": "passphrase: «{word} {word} {word} {word}»",
    "password, German": "Passwort: «{typed}!»",
    "password, French": "mot de passe : «{typed}!»",
    "pass=": "pass=«{typed}!»",
    "PIN": "the PIN is «{num:6}»",
    "user / password": "log in as admin / «{typed}!»",
    ".netrc": "machine x login bob password «{typed}!»",
    ".pgpass": "db.example.com:5432:app:bob:«{typed}!»",
    "bcrypt of htpasswd": "admin:«$2y$10${b62:53}»",
    "/etc/shadow": "root:«$6${b62:16}${b62:86}»:19000:0:99999:7:::",
    "BIP39 mnemonic": "seed: «{words:12}»",
    "Ethereum private key": "deployer key «0x{hex:64}»",
    "2FA backup codes": "backup codes: «{num:4}-{num:4} {num:4}-{num:4}»",
    "credit card": "card «4111 1111 1111 1111»",
    "presigned S3 URL": "https://b.s3.amazonaws.com/k?X-Amz-Signature=«{hex:64}»",
    "URL with key": "https://api.example.com/v1?key=«{b62:32}»",
    "ansible password": "ansible_become_pass=«{typed}!»",
    "Markdown table": "| password | «{typed}!» |",
    "escaped JSON": '{\\"password\\":\\"«{typed}!»\\"}',
    "Base64 of a password": "echo «cGFzc3dvcmQ6{b62:12}»= | base64 -d",
    "token over two lines": "token=\\\n«{b62:40}»",
    "zero width in a name": "pass\u200bword: «{typed}!»",
    "full-width colon": "password\uff1a«{typed}!»",
    "password in parentheses": "password («{typed}!»)",
    "password after a dash": "password - «{typed}!»",
    "password with a comma": "password: «ab,cdefgh{num:1}!»",
    "password with spaces": 'password: "«my {word} has fleas»"',
    "password like a call": "password=«{typed}({num:4})x!»",
    "SecureString": "ConvertTo-SecureString '«{typed}!»' -AsPlainText",
    "exported credential": "export DB_CREDENTIAL=«{typed}!»",
    "AUTH=": "REDIS_AUTH=«{b62:24}»",
    "SALT=": "SIGNING_SALT=«{b62:24}»",
    "encryption key in prose": "the encryption key «{b64:44}»",
}
# The kinds that 0.1.0 masked: each of its rules, and the forms that its tests name.
FOUND_BY_0_1 = {
    "AWS access key": "uses «AKIA{b32:16}»",
    "AWS temporary key": "uses «ASIA{b32:16}»",
    "AWS secret, quoted": "aws_secret_access_key = '«{b64:40}»'",
    "Artifactory key": "uses «AKCp8{b62:68}»",
    "Artifactory password": "uses «AP5{b62:30}»",
    "Azure storage key": "AccountName=acme;AccountKey=«{b64:86}»==",
    "Cloudant key": "cloudant_key = '«{hex:64}»'",
    "Cloudant password": "cloudant_password=«{let:24}»",
    "Cloudant URL": "https://acme:«{hex:64}»@acme.cloudant.com",
    "Discord bot token": "bot «M{url:23}.{url:6}.{url:27}»",
    "GitHub token": "pushes with «ghp_{b62:36}»",
    "GitHub OAuth token": "pushes with «gho_{b62:36}»",
    "GitHub app token": "pushes with «ghs_{b62:36}»",
    "GitHub fine-grained token": "pushes with «github_pat_{b62:22}_{b62:59}»",
    "GitLab token": "clones with «glpat-{url:20}»",
    "GitLab deploy token": "clones with «gldt-{url:20}»",
    "GitLab feed token": "reads with «glft-{url:20}»",
    "GitLab SCIM token": "reads with «glsoat-{url:20}»",
    "GitLab runner token": "runs with «glrt-{url:20}»",
    "GitLab registration token": "runs with «GR1348941{url:20}»",
    "GitLab job token": "runs with «glcbt-64_{url:20}»",
    "GitLab mail token": "mails with «glimt-{b62:25}»",
    "GitLab trigger token": "runs with «glptt-{hex:40}»",
    "GitLab agent token": "runs with «glagent-{url:50}»",
    "GitLab OAuth secret": "logs in with «gloas-{hex:64}»",
    "IBM COS key": 'cos_hmac_secret_access_key: "«{hex:48}»"',
    "IBM Cloud key": "ibm_cloud_api_key=«{b62:44}»",
    "JSON Web Token": "sends «eyJ{b62:33}.eyJ{b62:40}.{url:43}»",
    "Mailchimp key": "mails with «{hex:32}-us12»",
    "npm token in .npmrc": "//registry.npmjs.org/:_authToken=«npm_{b62:36}»",
    "npm token in .npmrc, old": "//registry.npmjs.org/:_authToken=«{uuid}»",
    "npm token": "publishes with «npm_{b62:36}»",
    "OpenAI key": "asks with «sk-{b62:20}T3BlbkFJ{b62:20}»",
    "OpenAI project key": "asks with «sk-proj-{url:74}T3BlbkFJ{url:74}»",
    "Anthropic key": "asks with «sk-ant-api03-{url:93}AA»",
    "private key": "-----BEGIN PRIVATE KEY-----\n«{b64:64}\n{b64:64}\n{b64:20}»=\n-----END PRIVATE KEY-----",
    "RSA key": "-----BEGIN RSA PRIVATE KEY-----\n«{b64:64}\n{b64:64}»\n-----END RSA PRIVATE KEY-----",
    "EC key": "-----BEGIN EC PRIVATE KEY-----\n«{b64:64}\n{b64:40}»\n-----END EC PRIVATE KEY-----",
    "DSA key": "-----BEGIN DSA PRIVATE KEY-----\n«{b64:64}\n{b64:40}»\n-----END DSA PRIVATE KEY-----",
    "OpenSSH key": "-----BEGIN OPENSSH PRIVATE KEY-----\n«{b64:70}\n{b64:70}»\n-----END OPENSSH PRIVATE KEY-----",
    "PGP key": "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n«{b64:64}»\n=abcd\n-----END PGP PRIVATE KEY BLOCK-----",
    "SSH2 key": "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n«{b64:64}»\n---- END SSH2 ENCRYPTED PRIVATE KEY ----",
    "key without an end": "-----BEGIN RSA PRIVATE KEY-----\n«{b64:64}\n{b64:64}»",
    "PuTTY key": "PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 2\n«{b64:64}\n{b64:40}»\nPrivate-MAC: «{hex:40}»",
    "PyPI token": "uploads with «pypi-AgEIcHlwaS5vcmc{url:150}»",
    "PyPI test token": "uploads with «pypi-AgENdGVzdC5weXBpLm9yZw{url:150}»",
    "SendGrid key": "mails with «SG.{url:22}.{url:43}»",
    "Slack bot token": "posts with «xoxb-{num:12}-{num:12}-{b62:24}»",
    "Slack webhook": "posts to https://hooks.slack.com/services/T{up:8}/B{up:8}/«{b62:24}»",
    "SoftLayer key": "sl_api_key=«{hex:64}»",
    "SoftLayer URL": "https://api.softlayer.com/soap/v3/«{hex:64}»",
    "Square secret": "«sq0csp-{url:43}»",
    "Stripe key": "charges with «sk_live_{b62:24}»",
    "Stripe restricted key": "charges with «rk_live_{b62:24}»",
    "Telegram token": "bot «{num:10}:AA{url:33}»",
    "Twilio key": "calls with «SK{hex:32}»",
    "Twilio account": "calls as «AC{hex:32}»",
    "Google API key": "maps with «AIza{url:35}»",
    "Google OAuth secret": "logs in with «GOCSPX-{url:28}»",
    "Hugging Face token": "loads with «hf_{b62:34}»",
    "DigitalOcean token": "deploys with «dop_v1_{hex:64}»",
    "age key": "decrypts with «AGE-SECRET-KEY-1{b32:58}»",
    "password in a URL": "postgres://user:«{typed}!»@host/db",
    "password in a URL without a user": "redis://:«{typed}»@host/0",
    "token in a URL": "https://«{hex:40}»@github.com/a/b.git",
    "curl -u": "curl -u user:«{typed}!» https://host/x",
    "curl -u, quoted": "curl -su 'user:«{typed} 7!»' https://host",
    "curl --user": "curl --proxy-user=user:«{typed}!» https://host",
    "bearer": "Authorization: Bearer «{b62:40}»",
    "basic": "Authorization: Basic «{b62:30}»==",
    "DB_PASSWORD=": "DB_PASSWORD=«{typed}»",
    "password, quoted": "password: '«{word} {typed} {word}»'",
    "password in JSON": '"password": "«{typed}!»"',
    "password, bold": "**Password**: «{typed}!»",
    "password of a sentence": "the password is «hunter{num:2}x», as ever",
    "pwd=": "pwd=«{typed}!»",
    "secret=": "client_secret=«{b62:32}»",
    "api_key": '"api_key": "«{hex:16}»"',
    "X-Api-Key": "X-Api-Key: «{low:14}»",
    "_KEY=": "STRIPE_KEY=«{b62:32}»",
    "service key": "service_key=«{b62:24}»",
    "db pass": "db_pass: «{typed}»",
    "private key, assigned": "priv_key=«{b62:32}»",
    "contraseña": "contraseña: «{typed}!»",
    "token=": "token=«{b62:24}»",
    "access key": "access-key: «{b62:24}»",
}
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
ABOUT_SECRETS = ("test_summaries.py", "test_masking.py", "secret_kinds.py", "test_guessed_secrets.py")
ROOT = Path(__file__).resolve().parents[2]
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
