"""Mask the secrets known by their own form: tokens with their vendor's beginning, keys, hashes, passwords in URLs.

TOKENS is made from what the vendors publish about their formats. Nothing here needs a pattern: a marker is looked for,
and the characters after it are counted, so that the time is linear in the text whatever it holds.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DIGITS = "0123456789"
SMALL = "abcdefghijklmnopqrstuvwxyz"
LARGE = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
HEX = DIGITS + "abcdefABCDEF"
LOWER = DIGITS + SMALL
UPPER = DIGITS + LARGE
ALNUM = DIGITS + SMALL + LARGE
WORD = ALNUM + "_"
URL64 = ALNUM + "_-"
DOTTED = ALNUM + "_-."
BASE64 = ALNUM + "+/="
BODY = BASE64 + "\r\n\\"  # of a key: over several lines, whose ends may be escaped
WIDE = ALNUM + "_-.+/=~:"
HASH = ALNUM + "./$+=,-_"
GOES_ON = ALNUM + "_-.+=~%"  # what follows is masked too: a vendor may make its tokens longer
ALNUM_SET, DIGIT_SET, SMALL_SET, LARGE_SET = frozenset(ALNUM), frozenset(DIGITS), frozenset(SMALL), frozenset(LARGE)
LONGEST = 16_384  # of a key between its edges, and of a URL
# What stands in a password's place where there is none.
PLACEHOLDERS = frozenset(("password", "passwd", "pass", "pwd", "secret", "changeme", "change-me", "change_me"))

# The kind of secret, the markers that begin it, the alphabet after a marker, and the least number of such characters;
# a fifth column is the largest number, for what would otherwise be found in other words.
TOKENS: tuple[tuple[str, tuple[str, ...], str, int] | tuple[str, tuple[str, ...], str, int, int], ...] = (
    # Code, packages, builds
    ("GitHub Token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"), WORD, 20),
    ("GitLab Token", ("glpat-", "gldt-", "glrt-", "glrtr-", "glft-", "glptt-", "glcbt-", "glimt-"), DOTTED, 16),
    ("GitLab Token", ("glsoat-", "glagent-", "gloas-", "glffct-", "glwt-", "GR1348941"), DOTTED, 16),
    ("Atlassian Token", ("ATATT3x", "ATCTT3x", "ATSTT3x"), WIDE, 40),
    ("Bitbucket Password", ("ATBB",), ALNUM, 28),
    ("npm Token", ("npm_",), ALNUM, 20),
    ("PyPI Token", ("pypi-AgE", "pypi-AgN"), URL64, 16),
    ("RubyGems Key", ("rubygems_",), HEX, 32),
    ("NuGet Key", ("oy2",), LOWER, 43, 43),
    ("crates.io Token", ("cio",), ALNUM, 32, 32),
    ("Clojars Token", ("CLOJARS_",), HEX, 40),
    ("Docker Token", ("dckr_pat_", "dckr_oat_"), URL64, 20),
    ("Artifactory Token", ("AKC", "cmVmdGtu"), ALNUM, 24),
    ("Artifactory Password", ("AP1", "AP2", "AP3", "AP4", "AP5", "AP6", "AP7", "AP8", "AP9"), ALNUM, 16),
    ("SoftLayer Key", ("api.softlayer.com/soap/v3/", "api.softlayer.com/soap/v3.1/"), LOWER, 32),
    ("SonarQube Token", ("squ_", "sqp_", "sqa_"), HEX, 32),
    ("CircleCI Token", ("CCIPAT_", "CCIPRJ_"), WORD, 32),
    ("Buildkite Token", ("bkua_", "bkct_", "bkaj_", "bkpat_", "bkpt_"), ALNUM, 20),
    ("Snyk Token", ("snyk_uat.", "snyk_sat."), DOTTED, 20),
    ("Sourcegraph Token", ("sgp_", "sgd_"), WORD, 32),
    ("Postman Key", ("PMAK-", "PMAT-"), URL64, 24),
    ("Octopus Key", ("API-",), UPPER, 25, 34),
    ("Firecrawl Key", ("fc-",), HEX, 32, 32),
    ("E2B Key", ("e2b_",), HEX, 40),
    ("Trigger.dev Key", ("tr_dev_", "tr_prod_", "tr_stg_", "tr_pat_"), ALNUM, 20),
    ("Inngest Key", ("signkey-prod-", "signkey-test-", "signkey-branch-"), HEX, 32),
    ("Unkey Key", ("unkey_",), ALNUM, 20),
    ("Product Key", ("slmgr /ipk ", "slmgr.vbs /ipk "), UPPER + "-", 29),
    # Clouds and hosts
    ("AWS Access Key", ("AKIA", "ASIA", "ABIA", "ACCA"), UPPER, 16, 16),
    ("AWS Bedrock Key", ("ABSK", "bedrock-api-key-"), BASE64, 60),
    ("Google API Key", ("AIza",), URL64, 35),
    ("Google OAuth Secret", ("GOCSPX-",), URL64, 20),
    ("Google OAuth Token", ("ya29.",), DOTTED, 20),
    ("Google Refresh Token", ("1//0",), URL64, 32),
    ("Azure Storage Key", ("AccountKey=", "SharedAccessKey="), BASE64, 40),
    ("DigitalOcean Token", ("dop_v1_", "doo_v1_", "dor_v1_"), HEX, 32),
    ("DigitalOcean Key", ("DO00", "DO801"), UPPER, 15, 16),
    ("Heroku Key", ("HRKU-",), URL64, 32),
    ("Cloudflare Token", ("cfut_", "cfat_", "cfk_"), URL64, 40),
    ("Cloudflare Key", ("v1.0-",), HEX + "-", 60),
    ("Fly.io Token", ("fo1_", "fm1r_", "fm1a_", "fm2_"), BASE64 + "_-,", 32),
    ("Netlify Token", ("nfp_", "nfo_", "nfc_", "nfu_", "nfb_"), ALNUM, 32),
    ("Vercel Token", ("vcp_", "vci_", "vca_", "vcr_", "vck_", "vercel_blob_rw_"), WORD, 20),
    ("Render Key", ("rnd_",), ALNUM, 24),
    ("Scaleway Key", ("SCW",), UPPER, 17, 17),
    ("Alibaba Key", ("LTAI",), ALNUM, 12, 26),
    ("Tencent Key", ("AKID",), ALNUM, 32, 32),
    ("Yandex Key", ("AQVN",), URL64, 35),
    ("Yandex Token", ("y0_", "y1_", "y2_", "t1."), WIDE, 40),
    ("Scalingo Token", ("tk-us-",), URL64, 40),
    ("DNSimple Token", ("dnsimple_a_", "dnsimple_u_"), ALNUM, 24),
    ("Porkbun Key", ("pk1_", "sk1_"), HEX, 40),
    ("Baidu Key", ("bce-v3/ALTAK-",), WIDE, 20),
    ("Tailscale Key", ("tskey-",), URL64, 20),
    # Data
    ("Databricks Token", ("dapi", "dose"), HEX + "-", 32, 36),
    ("Supabase Token", ("sbp_", "sb_secret_"), URL64, 20),
    ("PlanetScale Token", ("pscale_tkn_", "pscale_pw_", "pscale_oauth_"), DOTTED, 24),
    ("Neon Key", ("napi_",), LOWER, 32),
    ("MongoDB Secret", ("mdb_sa_sk_",), URL64, 32),
    ("Aiven Password", ("AVNS_",), URL64, 12),
    ("Grafana Token", ("glsa_", "glc_"), BASE64 + "_", 24),
    ("Elastic Key", ("essu_",), BASE64, 40),
    ("Xata Key", ("xau_",), ALNUM, 24),
    ("Fauna Key", ("fnA",), URL64, 36, 48),
    ("dbt Token", ("dbtc_", "dbtu_", "dbts_"), URL64, 24),
    ("Prefect Key", ("pnu_", "pnb_"), ALNUM, 32),
    # Monitoring
    ("New Relic Key", ("NRAK-", "NRII-", "NRIQ-", "NRRA-", "NRSP-"), URL64, 20),
    ("Sentry Token", ("sntrys_", "sntryu_", "sntrya_", "sntryi_"), BASE64 + "_-", 32),
    ("Honeycomb Key", ("hcaik_", "hcalk_", "hcxik_", "hcxlk_", "hcxmk_", "hcamk_"), LOWER, 32),
    ("Dynatrace Token", ("dt0c01.", "dt0s01.", "dt0s02.", "dt0s08.", "dt0s16."), DOTTED, 40),
    ("PostHog Key", ("phx_", "phs_"), ALNUM, 32),
    ("Axiom Token", ("xaat-", "xapt-"), URL64, 32),
    ("LaunchDarkly Key", ("sdk-", "api-", "mob-"), HEX + "-", 36, 36),
    # Secrets' own keepers
    ("K3s Token", ("K10",), HEX + ":server", 70),
    ("Vault Token", ("hvs.", "hvb.", "hvr."), URL64, 20),
    ("Vault Token", ("s.", "b.", "r."), ALNUM, 24, 24),
    ("Doppler Token", ("dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."), DOTTED, 24),
    ("1Password Token", ("ops_eyJ",), BASE64 + "_-.", 40),
    ("1Password Key", ("A3-",), UPPER + "-", 30, 40),
    ("Infisical Token", ("st.",), DOTTED, 60),
    ("Pulumi Token", ("pul-",), HEX, 32),
    ("age Key", ("AGE-SECRET-KEY-", "AGE-PLUGIN-"), UPPER + "-", 20),
    # Models
    ("Anthropic Token", ("sk-ant-",), URL64, 16),
    ("OpenAI Token", ("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"), URL64, 20),
    ("OpenAI Token", ("sess-",), ALNUM, 40, 40),
    ("OpenRouter Key", ("sk-or-v1-",), HEX, 32),
    ("Langfuse Key", ("sk-lf-",), HEX + "-", 32),
    ("OpenAI Token", ("sk-",), URL64, 32),
    ("DeepSeek Key", ("sk-",), DIGITS + "abcdef", 32, 32),
    ("Hugging Face Token", ("hf_", "api_org_"), ALNUM, 20),
    ("Replicate Token", ("r8_",), ALNUM, 30),
    ("Groq Key", ("gsk_",), ALNUM, 32),
    ("xAI Key", ("xai-",), URL64, 40),
    ("Perplexity Key", ("pplx-",), ALNUM, 32),
    ("NVIDIA Key", ("nvapi-",), URL64, 40),
    ("LangSmith Key", ("lsv2_pt_", "lsv2_sk_"), WORD, 32),
    ("Pinecone Key", ("pcsk_",), WORD, 40),
    ("Tavily Key", ("tvly-",), URL64, 24),
    ("Cerebras Key", ("csk-",), LOWER, 32),
    ("Fireworks Key", ("fw_",), ALNUM, 20),
    ("Weights & Biases Key", ("wandb_v1_",), WORD, 32),
    ("ElevenLabs Key", ("sk_",), HEX, 48, 48),
    ("RunPod Key", ("rpa_",), ALNUM, 32),
    ("Together Key", ("tgp_v1_",), URL64, 32),
    ("Jina Key", ("jina_",), ALNUM, 40),
    ("Apify Token", ("apify_api_",), ALNUM, 30),
    # Messages
    ("Slack Token", ("xoxe.xox", "xoxb-", "xoxp-", "xoxa-", "xoxo-", "xoxs-", "xoxr-", "xoxe-"), DOTTED, 10),
    ("Slack Token", ("xoxc-", "xoxd-", "xapp-", "xwfp-"), DOTTED + "%/+=", 10),
    ("Slack Webhook", ("hooks.slack.com/services/", "hooks.slack.com/workflows/"), URL64 + "/", 20),
    ("Slack Webhook", ("hooks.slack.com/triggers/",), URL64 + "/", 20),
    ("Discord Webhook", ("discord.com/api/webhooks/", "discordapp.com/api/webhooks/"), URL64 + "/", 30),
    ("Teams Webhook", (".webhook.office.com/webhookb2/", "outlook.office.com/webhook/"), URL64 + "/@", 40),
    ("Feishu Webhook", ("/open-apis/bot/v2/hook/",), URL64, 20),
    ("Zapier Webhook", ("hooks.zapier.com/hooks/catch/",), ALNUM + "/", 10),
    ("Make Webhook", (".make.com/",), LOWER, 28, 40),
    ("n8n Webhook", ("/webhook/", "/webhook-test/"), HEX + "-", 36, 36),
    ("DingTalk Secret", ("SEC",), HEX, 64, 64),
    ("MailerSend Token", ("mlsn.",), HEX, 40),
    ("Nylas Key", ("nyk_",), WORD, 32),
    ("VK Token", ("vk1.a.",), URL64, 40),
    ("IFTTT Webhook", ("/with/key/",), URL64, 20),
    ("Twilio Key", ("SK", "AC"), HEX, 32, 32),
    ("SendGrid Key", ("SG.",), DOTTED, 60),
    ("Mailgun Key", ("key-",), HEX, 32, 32),
    ("Mandrill Key", ("md-",), URL64, 22, 22),
    ("Brevo Key", ("xkeysib-", "xsmtpsib-"), URL64, 40),
    ("Resend Key", ("re_",), WORD, 24),
    ("Telnyx Key", ("KEY0",), ALNUM + "_", 40),
    ("Firebase Key", (":APA91b",), URL64, 60),
    ("OneSignal Key", ("os_v2_app_", "os_v2_org_"), LOWER, 40),
    ("Intercom Token", ("dG9rO",), BASE64, 40),
    # Payment and shops
    ("Stripe Key", ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_org_live_", "sk_org_test_"), WORD, 16),
    ("Webhook Secret", ("whsec_",), BASE64, 24),
    ("Square Token", ("EAAA",), URL64, 40),
    ("Square Secret", ("sq0csp-", "sq0atp-", "sq0idp-"), URL64, 20),
    ("Shopify Token", ("shpat_", "shpca_", "shppa_", "shpss_", "shpua_"), HEX, 32),
    ("PayPal Token", ("access_token$production$", "access_token$sandbox$"), LOWER + "$", 32),
    ("Plaid Token", ("access-production-", "access-sandbox-", "access-development-"), HEX + "-", 32),
    ("Adyen Key", ("AQE",), BASE64, 60),
    ("Razorpay Key", ("rzp_live_", "rzp_test_"), ALNUM, 14),
    ("Flutterwave Key", ("FLWSECK-", "FLWSECK_TEST-"), URL64, 12),
    ("Shippo Token", ("shippo_live_", "shippo_test_"), HEX, 32),
    ("Paddle Key", ("pdl_live_apikey_", "pdl_sdbx_apikey_", "pdl_ntfset_"), WORD, 20),
    ("Polar Token", ("polar_oat_", "polar_pat_"), ALNUM, 24),
    ("EasyPost Key", ("EZAK", "EZTK"), ALNUM, 54),
    ("Duffel Token", ("duffel_live_", "duffel_test_"), URL64 + "=", 32),
    # Work
    ("Airtable Token", ("pat",), ALNUM + ".", 79, 79),
    ("ClickUp Token", ("pk_",), UPPER + "_", 38, 46),
    ("LinkedIn Secret", ("WPL_AP1.",), BASE64 + ".", 20),
    ("Frame.io Token", ("fio-u-",), URL64, 40),
    ("Cal.com Key", ("cal_live_",), HEX, 28),
    ("Linear Key", ("lin_api_", "lin_oauth_", "lin_wh_"), ALNUM, 32),
    ("Notion Token", ("ntn_", "secret_"), ALNUM, 40),
    ("Figma Token", ("figd_", "figdr_", "figu_", "figur_", "figo_", "figoh_"), URL64, 20),
    ("Trello Token", ("ATTA",), HEX, 60),
    ("HubSpot Token", ("pat-na1-", "pat-na2-", "pat-na3-", "pat-eu1-", "pat-ap1-", "CJi"), URL64, 36),
    ("Salesforce Token", ("00D",), ALNUM + "!._", 60),
    ("Dropbox Token", ("sl.",), URL64 + ".", 60),
    ("Facebook Token", ("EAA",), ALNUM, 60),
    ("Instagram Token", ("IGQ", "IGAA"), URL64, 60),
    ("Twitter Token", ("AAAAAAAAAAAAAAAAAAAAA",), ALNUM + "%", 40),
    ("Twitch Token", ("oauth:",), LOWER, 30, 30),
    ("Contentful Token", ("CFPAT-",), URL64, 40),
    ("Typeform Token", ("tfp_",), WORD, 32),
    ("ReadMe Key", ("rdme_",), LOWER, 40),
    ("Mapbox Token", ("sk.eyJ", "tk.eyJ"), DOTTED, 40),
    ("PubNub Key", ("sec-c-",), URL64 + "=", 36),
    ("WakaTime Key", ("waka_",), HEX + "-", 32),
    ("Okta Token", ("SSWS ",), URL64, 30),
    ("CockroachDB Key", ("CCDB1_",), WORD, 40),
    ("Statsig Key", ("secret-",), ALNUM, 40),
    ("Stytch Secret", ("secret-live-", "secret-test-"), URL64 + "=", 30),
    # Keys, hashes and tokens that belong to no vendor
    ("JSON Web Token", ("eyJ",), DOTTED + "=", 30),
    ("Private Key", ("MII",), BODY, 60),
    ("Private Key", ("b3BlbnNzaC1rZXktdjE",), BODY, 40),
    ("Private Key", ("LS0tLS1CRUdJTi",), BODY, 40),
    ("Nostr Key", ("nsec1",), LOWER, 58, 58),
    ("Extended Key", ("xprv", "yprv", "zprv", "tprv"), ALNUM, 100),
    ("Password Hash", ("$2a$", "$2b$", "$2y$", "$2x$"), HASH, 50),
    ("Password Hash", ("$6$", "$5$", "$1$", "$y$", "$7$", "$gy$", "$apr1$", "$sha1$", "$scrypt$"), HASH, 20),
    ("Password Hash", ("$argon2id$", "$argon2i$", "$argon2d$", "$pbkdf2", "$bcrypt-sha256$", "$P$B"), HASH, 20),
    ("Password Hash", ("pbkdf2_sha256$", "pbkdf2_sha1$", "pbkdf2:sha256:", "scrypt:"), HASH + ":", 30),
    ("Password Hash", ("{SSHA}", "{SHA}", "{SSHA512}", "{SSHA256}", "{CRYPT}"), HASH, 20),
)
# Tokens that are known by their middle: the kind, the alphabet before the marker with its least and largest number of
# characters, the marker, the alphabet after it and its least number.
MIDDLES = (
    ("Azure Client Secret", ALNUM + "_-.~", 3, 5, "Q~", ALNUM + "_-.~", 30),
    ("Azure Key", ALNUM + "+/", 52, 52, "JQQJ99", BASE64, 26),
    ("Azure Key", ALNUM + "+/", 30, 90, "+ASt", BASE64, 4),
    ("Azure Key", ALNUM + "+/", 30, 90, "AzSe", BASE64, 4),
    ("Azure Key", ALNUM + "+/", 30, 90, "ACDb", BASE64, 4),
    ("Azure DevOps Token", ALNUM, 70, 80, "AZDO", ALNUM, 4),
    ("Terraform Token", ALNUM, 14, 14, ".atlasv1.", URL64, 40),
    ("Telegram Token", DIGITS, 8, 10, ":AA", URL64, 30),
    ("Mailchimp Key", HEX, 32, 32, "-us", DIGITS, 1),
    ("Asana Token", DIGITS + "/", 16, 40, ":", HEX, 32),
    ("New Relic Key", LOWER, 32, 36, "FFFFNRAL", "", 0),
    ("New Relic Key", HEX, 32, 36, "NRAL", "", 0),
    ("MaxMind Key", ALNUM + "_", 32, 36, "_mmk", "", 0),
    ("RapidAPI Key", ALNUM, 10, 10, "msh", ALNUM, 30),
    ("Discord Token", URL64, 23, 28, ".", DOTTED, 34),
)


def mask_known(text: str) -> str:
    """Return a text with each token of a form in the tables replaced by its kind."""
    for rule in TOKENS:
        for marker in rule[1]:
            if marker in text:
                text = _mask_marked(text, marker, rule)
    for middle in MIDDLES:
        if middle[4] in text:
            text = _mask_middles(text, middle)
    return text


def looks_random(word: str) -> bool:
    """Return whether a word has a digit, or both cases inside: few words that somebody writes do."""
    return not DIGIT_SET.isdisjoint(word) or has_both_cases(word[1:])


def has_both_cases(word: str) -> bool:
    """Return whether a word has small letters and large ones."""
    return not (SMALL_SET.isdisjoint(word) or LARGE_SET.isdisjoint(word))


def has_three_classes(word: str) -> bool:
    """Return whether a word has digits, small letters and large ones."""
    return has_both_cases(word) and not DIGIT_SET.isdisjoint(word)


def is_shuffled(word: str) -> bool:
    """Return whether a word has all three classes, or as many small and large letters as no name in code has."""
    if len(word) < 20 or has_three_classes(word):
        return has_three_classes(word)
    large, small = (sum([letter in letters for letter in word]) for letters in (LARGE_SET, SMALL_SET))
    return large * 4 >= len(word) <= small * 4


def count_ahead(text: str, at: int, alphabet: str, most: int = 0) -> int:
    """Count the characters of an alphabet from a place on, or only whether there are `most`."""
    end, step = at, most or 256
    while True:
        ahead = text[end : end + step]
        count = len(ahead) - len(ahead.lstrip(alphabet))
        end += count
        if count < step or most:
            return end - at


def is_public(text: str, at: int) -> bool:
    """Return whether a place is in the Base64 of a public key or a certificate."""
    label, _, body = text[max(0, at - LONGEST) : at].rpartition("-----BEGIN ")[2].partition("-----")
    return label.endswith(("PUBLIC KEY", "CERTIFICATE")) and not body.strip(BASE64 + "\r\n\\ ")


def begins_word(text: str, at: int) -> bool:
    """Return whether no word's letter or digit is before a place; an escape (`\\n`, `%3D`, a color) is none."""
    if at == 0 or text[at - 1] not in ALNUM_SET:
        return True
    before = text[max(0, at - 6) : at]
    if before[-2:] in ("\\n", "\\t", "\\r"):
        return True
    return before[-3:-2] == "%" or before[-6:-4] == "\\u" or ("[" in before and before[-1] == "m")


def _mask_marked(text: str, marker: str, rule: tuple[Any, ...]) -> str:
    kind, alphabet, least = rule[0], rule[2], rule[3]
    most = rule[4] if len(rule) > 4 else 0
    is_short = len(marker) < 4  # it also begins words that somebody writes
    needs_start = marker[0] in ALNUM_SET and (is_short or marker[-1] in ALNUM_SET)
    is_random = looks_random
    if is_short and "z" in alphabet and "Z" in alphabet:
        is_random = is_shuffled if marker[-1] in ".-" else has_both_cases
    parts, done = [], 0
    at = text.find(marker)
    while at >= 0:
        end = at + len(marker)
        if not needs_start or begins_word(text, at) or at == done:
            start = end
            end = start + count_ahead(text, start, alphabet)
            run = text[start:end]
            is_secret = least <= len(run) <= (most or len(run)) and is_random(run)
            if is_secret and not (alphabet is BODY and (text.endswith("p=", 0, at) or is_public(text, at))):
                if not most:
                    end += count_ahead(text, end, GOES_ON)
                    end = at + len(text[at:end].rstrip(".,\r\n"))
                parts += [text[done:at], f"[masked: {kind}]"]
                done = end
        at = text.find(marker, end)
    return "".join([*parts, text[done:]])


def _mask_middles(text: str, middle: tuple[str, str, int, int, str, str, int]) -> str:
    kind, before, least, most, marker, after, rest = middle
    parts, done = [], 0
    at = text.find(marker)
    while at >= 0:
        end = at + len(marker)
        if at < least or text[at - least] not in before or (rest and text[end : end + 1] not in after):
            at = text.find(marker, end)
            continue
        behind = text[max(done, at - most - 1) : at]
        length = len(behind) - len(behind.rstrip(before))
        start = at - length
        is_long = least <= length <= most and count_ahead(text, end, after, rest or 1) >= rest
        if is_long and (_is_discord(text, start, at) if marker == "." else looks_random(text[start : end + rest])):
            parts += [text[done:start], f"[masked: {kind}]"]
            done = end = end + count_ahead(text, end, after)
        at = text.find(marker, end)
    return "".join([*parts, text[done:]])


def _is_discord(text: str, start: int, at: int) -> bool:
    """Return whether a token's first part has all classes, or the second the six or seven characters of Discord's."""
    first, length = text[start:at], text.find(".", at + 1, at + 9) - at - 1
    return has_three_classes(first) or (first[:1] in ("M", "N", "O") and length >= 6 and has_both_cases(first))
