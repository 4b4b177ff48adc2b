"""Mask the secrets that a command's option or a file's format gives away, and the words that are random."""

from __future__ import annotations

from faber_ledger.recording.tokens import LARGE_SET, PLACEHOLDERS, has_both_cases, is_public

# A value in quotes, which may be escaped ones, or without; a variable is none.
VALUE = (
    r"""(?:\\{0,3}"(?P<a>[^"\n\\]{1,200})|\\{0,3}'(?P<b>[^'\n\\]{1,200})"""
    r"""|(?P<c>[^\s"'`|;\\<>()$-][^\s"'`|;\\<>]{2,200}))"""
)
PAIR = (
    r"""(?:\\{0,3}"(?P<a>[^"\n:\\]{0,80}:[^"\n\\]{1,200})|\\{0,3}'(?P<b>[^'\n:\\]{0,80}:[^'\n\\]{1,200})"""
    r"""|(?P<c>(?!\d+:\d+\b)(?:\[masked[^\]\n]{0,40}\]|[^\s:"'`/\\]{1,80})[:,](?!/)[^\s"'`\\]{3,200}))"""
)
TO = r"[^\n|;]{0,120}?\s"  # from a command to its option
# A user's option before `-p`, and no command that has another `-p`.
USER = (
    r"(?<!\S)(?:-u|-U|--user|--username|--login)[\s=]"
    r"(?:(?!mkdir|docker|podman|ssh|scp|pytest|git|cp|ps)\S{1,60}\s){1,6}"
)
SESSION = r"[\w.-]{0,20}(?:sess|sid|auth|token|jwt|login|remember|csrf)[\w.-]{0,20}"
# From one half of a pair to the other: `", "`, ` / `, `, token=`; and what the other can be.
BESIDE = r"[\"'`\\]{0,3}\s{0,2}[,:/|;]\s{0,8}(?:\w{1,30}\s?[:=]\s?)?[\"'`\\]{0,3}"
HALF = r"[0-9a-f]{32,64}|(?=[A-Za-z0-9+/]{0,39}[0-9A-Z])[A-Za-z0-9+/]{40}={0,2}"
ECHO = r"echo\s+(?:-\w\s+)?"
BASE64 = r"(?P<c>[A-Za-z0-9+/]{12,2000}={0,2})"
# The words of which a text needs one, and what leads the secret where they stand.
COMMANDS = (
    (("sshpass",), rf"sshpass\s{TO}?-p\s?{VALUE}"),
    (("mysql", "mariadb"), rf"\b(?:mysql|mariadb)[\w-]{{0,12}}{TO}-p{VALUE}"),
    (("mongo",), rf"\bmongo\w{{0,8}}{TO}-p\s{VALUE}"),
    (("sqlcmd", "mosquitto_", "ipmitool"), rf"(?:sqlcmd|mosquitto_\w{{3}}|ipmitool){TO}-P\s{VALUE}"),
    (("zip ",), rf"\b(?:un)?zip{TO}-P\s{VALUE}"),
    (("7z",), rf"\b7z\w?{TO}-p{VALUE}"),
    (("redis-cli",), rf"redis-cli{TO}-a\s{VALUE}"),
    (
        (" login ",),
        rf"\b(?:docker|podman|registry|az|cf|oc|nerdctl|buildah|crane|oras)\s(?:\w+\s)?login{TO}-p\s{VALUE}",
    ),
    (("ldap",), rf"\bldap\w{{1,12}}{TO}-w\s{VALUE}"),
    (("keytool", "storepass", "keypass"), rf"-(?:src|dest)?(?:store|key|new)?(?:store)?pass(?:wd)?\s{VALUE}"),
    (("pass:",), rf"\bpass:{VALUE}"),
    (("openssl",), rf"openssl{TO}-k\s{VALUE}"),
    (("htpasswd",), rf"htpasswd\s-\w*b\w*\s\S{{1,80}}\s\S{{1,80}}\s{VALUE}"),
    (("htpasswd",), rf"htpasswd\s-(?:nb|bn)\w*\s\S{{1,80}}\s{VALUE}"),
    (("signtool",), rf"signtool{TO}/p\s{VALUE}"),
    (("/user:",), rf"(?<!/)/user:\S{{1,60}}\s{VALUE}"),
    (("ssh-keygen",), rf"ssh-keygen{TO}-[NP]\s{VALUE}"),
    (("AUTH PLAIN ", "AUTH LOGIN "), rf"AUTH (?:PLAIN|LOGIN) {BASE64}"),
    (("snmp",), rf"snmp[\w-]{{0,20}}\scommunity[\s:=]{{1,3}}{VALUE}"),
    (("-U",), rf"(?<=\s)-U\s?[\w.\\-]{{1,60}}%{VALUE}"),
    (("net user",), rf"net user\s\S{{1,60}}\s{VALUE}(?=[\"'\\]{{0,3}}\s/)"),
    (("rabbitmqctl",), rf"rabbitmqctl{TO}(?:add_user|change_password)\s\S{{1,60}}\s{VALUE}"),
    (("/p:",), rf"(?<=\s)/p:{VALUE}"),
    ((" -p",), rf"{USER}-p[\s=]?(?![/.~]|[\d:]{{1,9}}\b){VALUE}"),
    (("requirepass", "masterauth"), rf"(?:requirepass|masterauth)\s{VALUE}"),
    (("AUTH default ",), rf"AUTH default {VALUE}"),
    (("community ",), rf"\br[ow]community6?\s{VALUE}"),
    (("snmp",), rf"\bsnmp\w{{3,12}}{TO}-c\s{VALUE}"),
    ((" 0 ", " 5 ", " 7 ", " 8 ", " 9 "), rf"\b(?:key|password|secret)\s[05789]\s{VALUE}"),
    (("obscure ",), rf"rclone obscure {VALUE}"),
    (("net use",), rf"net use\s\S{{1,20}}\s\S{{1,120}}\s(?!/){VALUE}"),
    (("send ",), r"(?i:passw|passp|kennwort)[^\n]{0,40}\n\s{0,20}send\s(?:--\s)?\"(?P<c>[^\"\\\n]{4,80})\\r"),
    (("curl", "wget", "http"), r"\s(?:-b|--cookie)[\s=][\"']?[\w.-]{1,40}=(?P<c>[^\s\"'\\]{8,400})"),
    (("ookie: ",), rf"ookie: (?:[\w.-]{{1,40}}=[^\s;]{{0,80}}; ){{0,9}}(?i:{SESSION})=(?P<c>[^\s;,\"'\\]{{8,400}})"),
    (("Digest ",), r"Digest\s[^\n]{0,400}?\bresponse=\\?[\"']?(?P<c>[0-9a-f]{32,128})"),
    ((" > ", " >> "), rf"{ECHO}{VALUE}\\{{0,3}}[\"']?\s>{{1,2}}\s\S{{0,80}}(?:pass|secret|token|cred)"),
    ((" * ",), rf"(?m:^)\s{{0,8}}[A-Za-z][\w.@-]{{0,60}}\s{{1,8}}\*\s{{1,8}}{VALUE}\s{{1,8}}\*\s{{0,8}}(?m:$)"),
    (("pwgen", "openssl rand"), r"\b(?:pwgen|openssl rand)\b[^\n]{0,60}\n\s{0,8}(?P<c>[^\s\"'`]{8,200})"),
    (("put-parameter", "secret set"), rf"(?:put-parameter|secret set){TO}(?:--value|--body|-b)[\s=]{VALUE}"),
    (("--from-literal",), rf"--from-literal[\s=][\w.-]{{1,60}}={VALUE}"),
    (("-stdin",), rf"{ECHO}{VALUE}\\{{0,3}}[\"']?\s?\|[^\n|]{{0,80}}--password-stdin"),
    (("createUser ",), rf"createUser\s\S{{1,60}}\s(?:SHA|MD5)\S{{0,4}}\s{VALUE}"),
    (("createUser ",), rf"createUser\s[^\n]{{1,160}}\s(?:AES|DES)\S{{0,4}}\s{VALUE}"),
    (("snmp",), rf"\bsnmp\w{{3,12}}{TO}-A\s{VALUE}"),
    (("snmp",), rf"\bsnmp\w{{3,12}}{TO}-X\s{VALUE}"),
    (('PSK "', 'EAP "', 'XAUTH "'), r":\s(?:PSK|EAP|XAUTH)\s\"(?P<c>[^\"\n]{4,200})\""),
    (("machine ",), rf"machine\s\S{{1,80}}\s{{1,8}}login\s\S{{1,60}}\s{{1,8}}password\s{VALUE}"),
    (("assword:: ",), rf"assword:: {BASE64}"),
    (
        ("totp", "TOTP", "otp", "OTP", "2fa", "2FA", "mfa", "MFA", "uthenticator", "wo-factor"),
        r"(?i:otp|2fa|mfa|authenticator|two-factor)\b[^\n]{0,60}?(?<![A-Za-z0-9+/=])"
        r"(?P<c>(?=[A-Z2-7 ]*[2-7])(?:[A-Z2-7]{16,64}|[A-Z2-7]{4}(?: [A-Z2-7]{4}){3,15}))(?![A-Za-z0-9+/=])",
    ),
    (("[masked: ",), rf"\[masked: [\w. ]{{0,40}}\]{BESIDE}(?P<c>{HALF})(?![\w+/=])"),
    (("SecureString",), rf"ConvertTo-SecureString\s(?:-String\s)?{VALUE}"),
    (("IDENTIFIED ",), rf"IDENTIFIED\sBY\s{VALUE}"),
    (("dentified by ",), rf"dentified by (?=[\\\"']){VALUE}"),
    (("sudo -S",), rf"{ECHO}{VALUE}\\{{0,3}}[\"']?\s?\|\s?sudo\s-S"),
    (
        ("chpasswd",),
        rf"{ECHO}\\{{0,3}}[\"']?[\w.-]{{1,40}}:(?P<c>[^\s\"'|\\]{{3,200}})\\{{0,3}}[\"']?\s?\|\s?(?:sudo\s)?chpasswd",
    ),
    (("base64",), rf"{BASE64}\\{{0,3}}[\"']?\s?(?:\|\s?)?(?:openssl\s)?base64\s(?:-d|-D|--decode)"),
    (("base64",), rf"base64\s(?:-d|-D|--decode)\s?<<<\s?\\{{0,3}}[\"']?{BASE64}"),
    (
        ("jdbc:oracle:", "sqlplus", "expdp", "impdp"),
        r"(?:jdbc:oracle:\w{1,9}:|(?:sqlplus|expdp|impdp)\s(?:-\w{1,3}\s)?)[\w$#.-]{1,60}/(?P<c>[^\s\"'@/\\<]{3,200})@",
    ),
    (
        ("pp password", "pp Password", "pecific password", "PASSWORD="),  # four groups, as Google and Apple make them
        r"(?:[Aa]pp(?:-specific)? [Pp]asswords?(?:\sis|[^\n:]{1,80}:)?[\s:=\"'`*\\]{1,5}|PASSWORD=)"
        r"(?P<c>[a-z]{4}(?:[ -]?[a-z]{4}){3})(?![a-z])",
    ),
    (
        ("token", "Token"),  # a UUID, set apart
        r"[Tt]oken\b[^\n.;]{0,60}\s[—–-]\s\W?(?P<c>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})",
    ),
    (
        ("curl", "-u ", "--user", "--proxy-user", "--creds"),
        rf"(?:(?<=\s)-[A-Za-z]{{0,8}}u|--(?:proxy-)?user|--creds)[\s=]{{0,3}}{PAIR}",
    ),
)
# host:port:database:user:password, as in .pgpass
PGPASS = r"(?<![^\s\"'`|=(])[^\s:\"'`|=(]{1,200}:(?:\d{3,5}|\*):[^\s:]{1,100}:[^\s:]{1,100}:(?P<c>[^\s:\"'`|\\]{4,200})"
PRODUCT_KEY = r"(?<![\w-])(?=[A-Z-]{0,20}\d)(?=[\d-]{0,20}[A-Z])(?P<c>[A-Z0-9]{5}(?:-[A-Z0-9]{5}){4})(?![\w-])"
# A user and a password, which has a sign, a digit and letters of both cases: `bob:…`, `bob@example.com / …`
STRONG = r"(?=[^\s\"'`]{0,40}?\d)(?=[^\s\"'`]{0,40}?[A-Z])(?=[^\s\"'`]{0,40}?[a-z])(?=[^\s\"'`]{0,40}?[!@#$%^&*])"
LOGIN = rf"(?<![^\s\"'`(|])[\w.+-]{{1,60}}(?:@[\w.-]{{1,80}}(?::| / )|:){STRONG}(?P<c>[^\s\"'`\\|;/]{{8,80}})(?![\w/])"
RANDOM = r"(?!I[0-9a-f]{40}\b)(?<![A-Za-z0-9+/_.%~-])[A-Za-z0-9+/_.%~-]{24,}={0,2}"
# How the public keys of SSH begin, the hashes of packages, and the names that C++ gives functions.
PUBLIC = ("AAAAB3NzaC1", "AAAAC3NzaC1", "AAAAE2VjZHNh", "sha1-", "sha256-", "sha384-", "sha512-", "_ZN", "_ZS")
SIGNS = frozenset("!@#$%^&*")
HASHES = ("SHA256:", "sha256:", "h1:", ";base64,", 'hash = "', "cf-id: ", "verification=", "; p=", '"kid":"', '"n":"')
CHANGE = r"(?<=[a-z])[A-Z0-9]|(?<=[A-Z])[a-z0-9]|(?<=[0-9])[A-Za-z]"


def mask_forms(text: str) -> str:
    """Return a text with the secrets of commands and formats replaced by `[masked]`."""
    for words, pattern in COMMANDS:
        if any([word in text for word in words]):
            text = _mask_value(text, pattern)
    if any([word.count(":") > 3 for word in text.split()]):
        text = _mask_value(text, PGPASS)
    if any([word.count("-") > 3 and len(word) > 28 and not LARGE_SET.isdisjoint(word) for word in text.split()]):
        text = _mask_value(text, PRODUCT_KEY)
    if (
        any([len(word) > 9 and ":" in word[1:-8] and not SIGNS.isdisjoint(word) for word in text.split()])
        or " / " in text
    ):
        text = _mask_value(text, LOGIN)
    return text


def _mask_value(text: str, pattern: str) -> str:
    import re

    parts, done = [], 0
    for match in re.finditer(pattern, text):
        start, end = match.span(match.lastgroup or 0)
        said = text[start:end]
        is_shown = said.startswith(("$", "{{", "<")) or said.lower() in PLACEHOLDERS
        if not is_shown and ("]:" in said or not said.startswith("[masked")):
            parts += [text[done:start], "[masked]"]
            done = end
    return "".join([*parts, text[done:]])


def mask_random(text: str) -> str:
    """Return a text without the long words that change between digits and letters as only a key does."""
    if not any([len(word) >= 24 and has_both_cases(word) for word in text.split()]):
        return text
    import re

    def is_mixed(piece: str) -> bool:
        if len(re.findall(CHANGE, piece)) * 5 < len(piece) * 2:
            return False
        digits = len(re.findall("[0-9]", piece))
        if digits == 0:  # else it is a name in code: few of its letters are large
            return len(piece) >= 32 and len(re.findall("[A-Z]", piece)) * 3 > len(piece)
        return len(piece) >= 32 or digits > 1

    def shown(match: re.Match[str]) -> str:
        kept = ""
        for piece in match[0].split("."):
            if len(piece) >= 24 and has_both_cases(piece) and is_mixed(piece):
                at = match.start() + len(kept)
                is_shown = piece.startswith(PUBLIC) or text.endswith(HASHES, 0, at) or is_public(text, at)
                return match[0] if is_shown else kept + "[masked]"
            kept += piece + "."
        return match[0]

    return re.sub(RANDOM, shown, text)
