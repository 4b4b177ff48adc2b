"""What people call their secrets, and where such a name is in a text. No pattern is compiled to find one."""

from __future__ import annotations

from faber_ledger.recording.secrets.tokens import DIGIT_SET, LARGE_SET, SMALL_SET, is_shuffled

LETTERS = LARGE_SET | SMALL_SET
ESCAPES = ("\\n", "\\t", "\\r")


def split_words(words: str) -> frozenset[str]:
    """Return a set of words that is written as a text."""
    return frozenset(words.split())


def _listed(names: str) -> tuple[str, ...]:
    return tuple([" ".join(name.split()) for name in names.split(",")])


# What people call a password, in the languages of many teams; a space also stands for `-` and `_`.
PASSWORDS = _listed("""
    password, passwd, passphrase, pass phrase, passcode, pwd, pass, pw, secret, credential, creds, passwort,
    kennwort, mot de passe, motdepasse, mdp, contraseña, contrasena, contrasenya, clave, senha, palavra passe,
    parola d'ordine, parola, wachtwoord, lösenord, losenord, adgangskode, passord, salasana, lykilorð, hasło, haslo,
    hasła, heslo, jelszó, jelszo, lozinka, şifre, sifre, slaptažodis, parool, mật khẩu, kata sandi, пароль, пароля,
    密码, 密碼, 口令, zugangsdaten, anmeldedaten, identifiants, credenciales, credenziali, accesso, psk, wpa key,
    wpa2 key, wpa3 key, wifi key, wlan schlüssel, パスワード, 비밀번호, 암호, पासवर्ड, รหัสผ่าน, סיסמה, كلمة المرور,
    κωδικός, 暗証番号, mots de passe, palabra clave, jelszava, clave de acceso, wpa passphrase, user password,
    mot d passe, cle wifi, clé wifi, clé wpa, wifi schlüssel, wlan key, wifi pass, kennwörter, passwörter,
    geheimnis, zugangscode
""")
# What has a key, but is mostly said of something else: a licence, a service.
VAGUE = _listed("""
    dsn, seed, license, webhook, heroku, cloudflare, datadog, pagerduty, snyk, codecov, fastly, linode, hetzner,
    algolia, okta, auth0, jenkins, consul, nomad, twilio, rollbar, bugsnag, mixpanel, amplitude, mailgun, postmark,
    aws, openai, vercel, azure, sonar, jfrog, artifactory, infura, alchemy, sentry, stripe, slack, discord,
    telegram, pusher, ably, vultr, scaleway, railway, opsgenie, elevenlabs, cohere, mistral, upstash, zendesk,
    segment, plaid, braintree, paypal, ngrok
""")
# What people call a key: its value is one that nobody writes as a word.
KEYS = (
    *_listed("""
    token, apikey, api key, key, auth, authorization, bearer, basic, salt, jwt, hmac, sessionid, phpsessid,
    jsessionid, sid, connect.sid, cookie, signature, sas, pepper, totp, secretid, secretkey, secretaccesskey,
    accesskey, sessiontoken, authtoken, accesstoken, refreshtoken, privatekey, schlüssel, clé, jeton,
    identity token, zugriffstoken
"""),
    *VAGUE,
)
# Beside these stands a user's name; a password may be in the same sentence.
LOGINS = _listed("""
    basic auth, idrac, ilo, root /, admin /, administrator /, logged into, log into, sign into, signed into, wifi,
    wi fi, wlan, vpn, login, log in, log on, logged in, sign in, signed in, user/pass, username, account, unlock,
    unlocked, unlocks, keystore opens, decrypt
""")
# What is a secret of several codes, each on its line.
LISTED = _listed("""
    backup code, recovery code, scratch code, emergency code, rescue code, wiederherstellungscode, backupcode,
    recoverycode, ersatzcode, notfallcode, einmalcode, rettungscode, sicherungscode, code de secours,
    codes de secours, code de récupération, codes de récupération, código de recuperación, códigos de recuperación,
    codigo de recuperacion, codigos de recuperacion, código de respaldo, códigos de respaldo, codigos de respaldo,
    código de seguridad, codice di recupero, codici di recupero, códigos de recuperação, 2fa code, one time code,
    single use code
""")
# Near these a number is a secret, or a card's; after these, many words are.
CODES = (
    *LISTED,
    *_listed("""
    pin, recovery key, product key, license key, licence key, serial number, activation code, security code, cvv,
    cvc, otp, one time code, 2fa, tan, license code, licence code, activation key, unlock code, door code,
    gate code, alarm code, access code, safe code, puk, pin code, pincode, produktschlüssel, lizenzschlüssel,
    lizenzcode, aktivierungsschlüssel, aktivierungscode, product schlüssel, seriennummer, türcode, zugangscode,
    entsperrcode, tresorcode, freischaltcode, wiederherstellungsschlüssel, bestätigungscode, clé de produit,
    clé de licence, clé d'activation, clé de récupération, numéro de série, code d'accès, code d'activation,
    code secret, clave de producto, clave de licencia, clave de activación, clave del producto, número de serie,
    código de acceso, código de activación, code pin
"""),
)
CARDS = _listed("""
    card, visa, mastercard, amex, kreditkarte, tarjeta, carte
""")
PHRASES = _listed("""
    seed, mnemonic, recovery phrase, secret phrase, recovery words, passphrase, wallet
""")
# These must stand alone or at a name's edge: they are in other words.
SHORT = split_words("""
    sid ilo idrac 2fa ably account amex auth aws azure basic card carte clave clé consul cookie creds cvc cvv
    decrypt discord dsn fastly haslo heslo hmac jeton jwt key license login mdp nomad okta otp parola parool pass
    pin plaid psk puk pusher pwd railway salt sas secretid seed segment senha sentry sifre slack sonar stripe tan
    token totp unlock unlocked visa wallet webhook
""")
# A name with one of these words beside it is not a secret's: `token_count`, `password_file`, `public key`.
OTHER_WORDS = split_words("""
    alg algorithm at budget by count date dir error errors existing expiration expires expiry fail fails field
    fields file files for form format hint id ids index label len length limit manager max min name names path
    pattern policy prompt read ref regex required ring rule rules size stdin text time ttl type types uri url usage
    used version write
""")
OTHER_KEYS = split_words("""
    cache foreign object partition primary public sort sorting unique
""")
KEYS_OF = split_words("""
    access account admin api app application auth client cookie database db deploy encryption hmac host ingest
    integration jwt master priv private recovery root secret send server service shared signing ssh storage
    subscription token unseal write
""")
SIGNS = frozenset("!@#$%^&*?+~")
VALUE_SET = DIGIT_SET | SIGNS
WORDS_SET = VALUE_SET | {"-"}  # of several words as well
ENDS = ".,:;'*"  # of a sentence or an emphasis, not of a secret
JOINTS = frozenset(":=：＝→⇒|<>")  # what assigns a value
QUOTES = frozenset("\"'“„«‘「")  # backticks may have code
BEFORE_QUOTES = frozenset(" \t(,[{\\")
WINDOW = 90  # characters of the same line in which a secret is near
LOOK = 120  # in which a secret begins that a name leads
FARTHEST_CODE = 480
SPACES = str.maketrans("-_", "  ")
LIKE_ASCII = str.maketrans("İıſ", "iis")  # the first alone is longer in lower case
GROUPS = {"password": PASSWORDS, "key": KEYS, "login": LOGINS, "code": CODES, "card": CARDS, "phrase": PHRASES}


def find_names(text: str) -> list[tuple[int, int, str]]:
    """Return where each name begins and ends, and what it is of, in the text's order."""
    low = text.translate(LIKE_ASCII).lower().translate(SPACES)
    hits, size = [], len(text)
    for group, names in GROUPS.items():
        escaped = [_in_json(name) for name in names if not name.isascii()] if "\\u" in low else []
        for name in (*names, *escaped):
            start = low.find(name)
            while start >= 0:
                end = start + len(name)
                if (end == size or text[end] == "s" or text[end] not in SMALL_SET) and _is_whole(
                    text, start, end, is_short=name in SHORT
                ):
                    hits.append((start, end, group))
                start = low.find(name, end)
    return sorted(hits)


def may_lead(text: str, start: int, end: int, group: str) -> bool:
    """Return whether what is near a name can be a secret: in prose it is mostly words, and no pattern is needed."""
    after = text[end : end + LOOK]
    if group == "phrase":
        return True
    if group in ("code", "card"):
        return not DIGIT_SET.isdisjoint(text[end : end + FARTHEST_CODE]) or after.count("-") > 2
    whole = after + text[end + LOOK : end + 2 * LOOK].split(" ", 1)[0]
    if group == "key":
        return _has_value(whole, 8, VALUE_SET)
    line, _, more = whole.partition("\n")
    if not JOINTS.isdisjoint(line) or text[max(0, start - 24) : start].rsplit(" ", maxsplit=1)[-1].startswith("-"):
        return True
    if not QUOTES.isdisjoint(line) and any(
        [letter in QUOTES and (at == 0 or line[at - 1] in BEFORE_QUOTES) for at, letter in enumerate(line)]
    ):
        return True
    is_ended = line.rstrip().endswith((".", ";"))
    return _has_value(line if is_ended else f"{line} {' '.join(more.split()[:3])}", 4, WORDS_SET)


def _has_value(text: str, least: int, letters: frozenset[str]) -> bool:
    """Return whether a word of at least so many characters has one of these, or changes its case as a key does."""
    words = [word for word in text.split() if len(word.strip(ENDS)) >= least]
    return any([not letters.isdisjoint(word) or is_shuffled(word) for word in words])


def _in_json(name: str) -> str:
    """Return a name as JSON writes it whose writer escapes what is not ASCII."""
    return "".join([letter if letter.isascii() else f"\\u{ord(letter):04x}" for letter in name])


def _is_whole(text: str, start: int, end: int, *, is_short: bool) -> bool:
    """Return whether a name is not a piece of another word: `secretary`, `monkey`."""
    after = text[end : end + 2]
    if after[:1] in ("s", "S"):
        after = after[1:]
    if after[:1] and after[0] in LETTERS and not (after[0].isupper() and text[end - 1].islower()):
        return False
    if not is_short or start == 0 or text[start - 1] not in LETTERS:
        return True
    return (text[start].isupper() and text[start - 1].islower()) or text[max(0, start - 2) : start] in ESCAPES
