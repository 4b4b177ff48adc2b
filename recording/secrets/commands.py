"""What a command's option or a file's format gives away: the words that a text needs, and what leads the secret."""

from __future__ import annotations

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
# Between the halves of a pair: `", "`, ` / `, `, token=`; and what the other can be.
BETWEEN = r"[\"'`\\]{0,3}\s{0,2}[,:/|;]\s{0,8}(?:\w{1,30}\s?[:=]\s?)?[\"'`\\]{0,3}"
HALF = r"[0-9a-f]{32,64}|(?=[A-Za-z0-9+/]{0,39}[0-9A-Z])[A-Za-z0-9+/]{40}={0,2}"
ECHO = r"echo\s+(?:-\w\s+)?"
ENCODED = r"(?P<c>[A-Za-z0-9+/]{12,2000}={0,2})"
# A text needs one of these words; then what leads the secret where they are.
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
    (("AUTH PLAIN ", "AUTH LOGIN "), rf"AUTH (?:PLAIN|LOGIN) {ENCODED}"),
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
    (("assword:: ",), rf"assword:: {ENCODED}"),
    (
        ("totp", "TOTP", "otp", "OTP", "2fa", "2FA", "mfa", "MFA", "uthenticator", "wo-factor"),
        r"(?i:otp|2fa|mfa|authenticator|two-factor)\b[^\n]{0,60}?(?<![A-Za-z0-9+/=])"
        r"(?P<c>(?=[A-Z2-7 ]*[2-7])(?:[A-Z2-7]{16,64}|[A-Z2-7]{4}(?: [A-Z2-7]{4}){3,15}))(?![A-Za-z0-9+/=])",
    ),
    (("[masked: ",), rf"\[masked: [\w. ]{{0,40}}\]{BETWEEN}(?P<c>{HALF})(?![\w+/=])"),
    (("SecureString",), rf"ConvertTo-SecureString\s(?:-String\s)?{VALUE}"),
    (("IDENTIFIED ",), rf"IDENTIFIED\sBY\s{VALUE}"),
    (("dentified by ",), rf"dentified by (?=[\\\"']){VALUE}"),
    (("sudo -S",), rf"{ECHO}{VALUE}\\{{0,3}}[\"']?\s?\|\s?sudo\s-S"),
    (
        ("chpasswd",),
        rf"{ECHO}\\{{0,3}}[\"']?[\w.-]{{1,40}}:(?P<c>[^\s\"'|\\]{{3,200}})\\{{0,3}}[\"']?\s?\|\s?(?:sudo\s)?chpasswd",
    ),
    (("base64",), rf"{ENCODED}\\{{0,3}}[\"']?\s?(?:\|\s?)?(?:openssl\s)?base64\s(?:-d|-D|--decode)"),
    (("base64",), rf"base64\s(?:-d|-D|--decode)\s?<<<\s?\\{{0,3}}[\"']?{ENCODED}"),
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
        ("curl", "-u ", "--user", "--proxy-user", "--creds"),
        rf"(?:(?<=\s)-[A-Za-z]{{0,8}}u|--(?:proxy-)?user|--creds)[\s=]{{0,3}}{PAIR}",
    ),
)
