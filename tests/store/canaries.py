"""Secrets and personal numbers that nobody owns, made by seeded code so that no file of the repository holds one."""

import base64
import json
import random
import string
from collections.abc import Callable
from urllib.parse import quote

ALPHANUMERIC = string.ascii_letters + string.digits
BASE64 = ALPHANUMERIC + "+/"
Make = Callable[[random.Random], tuple[str, str]]
"""A text as it may occur, and the part of it that must not survive."""


def pick(chance: random.Random, alphabet: str, length: int) -> str:
    """Random characters, with a digit and a letter among them."""
    return "".join(chance.choices(alphabet, k=length - 2)) + "7k"


def token(prefix: str, length: int, alphabet: str = ALPHANUMERIC) -> Make:
    def make(chance: random.Random) -> tuple[str, str]:
        text = prefix + pick(chance, alphabet, length)
        return text, text

    return make


def within(template: str, length: int, alphabet: str = ALPHANUMERIC) -> Make:
    def make(chance: random.Random) -> tuple[str, str]:
        secret = pick(chance, alphabet, length)
        return template.replace("SECRET", secret), secret

    return make


def upper_key(prefix: str) -> Make:
    def make(chance: random.Random) -> tuple[str, str]:
        text = prefix + "".join(chance.choices(string.ascii_uppercase + "234567", k=14)) + "7K"
        return text, text

    return make


def json_web_token(chance: random.Random) -> tuple[str, str]:
    parts = [json.dumps({"alg": "HS256"}), json.dumps({"sub": pick(chance, ALPHANUMERIC, 12)})]
    head, body = (base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)
    text = f"{head}.{body}.{pick(chance, ALPHANUMERIC, 43)}"
    return text, text


def private_key(chance: random.Random) -> tuple[str, str]:
    lines = [pick(chance, BASE64, 64) for _ in range(4)]
    kind = chance.choice(["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
    return f"-----BEGIN {kind}PRIVATE KEY-----\n" + "\n".join(lines) + f"\n-----END {kind}PRIVATE KEY-----", lines[2]


def basic_authorization(chance: random.Random) -> tuple[str, str]:
    secret = base64.b64encode(f"user:{pick(chance, ALPHANUMERIC, 12)}".encode()).decode()
    return f"Authorization: Basic {secret}", secret


def email(chance: random.Random) -> tuple[str, str]:
    name = pick(chance, string.ascii_lowercase, 8)
    text = chance.choice([f"{name}@example.org", f"{name}.smith+news@mail.example.co.uk", f"jörg-{name}@müller.example.de"])
    return text, text


def luhn(digits: str) -> str:
    doubled = [int(digit) * (2 - place % 2) for place, digit in enumerate(reversed(digits))]
    return digits + str(-sum(value - 9 * (value > 9) for value in doubled) % 10)


def payment_card(chance: random.Random) -> tuple[str, str]:
    start = chance.choice(["4", "51", "55", "2221", "6011", "65"])
    digits = luhn(start + "".join(chance.choices(string.digits, k=15 - len(start))))
    gap = chance.choice(["", " ", "-", "\u00a0"])
    text = gap.join(digits[place : place + 4] for place in range(0, 16, 4))
    return text, text


def amex(chance: random.Random) -> tuple[str, str]:
    digits = luhn("37" + "".join(chance.choices(string.digits, k=12)))
    text = f"{digits[:4]} {digits[4:10]} {digits[10:]}"
    return text, text


def iban(chance: random.Random) -> tuple[str, str]:
    country, letters, length = chance.choice(
        [("DE", "", 18), ("FR", "", 23), ("GB", "NWBK", 14), ("NL", "INGB", 10), ("CH", "", 17)]
    )
    account = letters + "".join(chance.choices(string.digits, k=length))
    number = int("".join(str(int(character, 36)) for character in account + country + "00"))
    compact = f"{country}{98 - number % 97:02d}{account}"
    text = chance.choice([compact, " ".join(compact[place : place + 4] for place in range(0, len(compact), 4))])
    return text, text


def social_security_number(chance: random.Random) -> tuple[str, str]:
    text = f"{chance.randint(100, 665)}-{chance.randint(1, 99):02d}-{chance.randint(1, 9999):04d}"
    return text, text


def phone(chance: random.Random) -> tuple[str, str]:
    exchange, line = chance.randint(200, 999), chance.randint(0, 9999)
    text = chance.choice(
        [
            f"+1 (415) {exchange}-{line:04d}",
            f"(212) {exchange}-{line:04d}",
            f"646-{exchange}-{line:04d}",
            f"1-800-{exchange}-{line:04d}",
            f"+49 30 {exchange}{line:04d}",
            f"+44 20 7{exchange} {line:04d}",
            f"+33 1 23 45 {exchange // 10:02d} {line // 100:02d}",
            f"+41791{exchange}{line:04d}",
        ]
    )
    return text, text


LOCAL_PHONES = {
    "japan": "090-3ddd-dddd",
    "korea": "010-2ddd-dddd",
    "united_kingdom": "020 7ddd dddd",
    "france": "06 2d dd dd dd",
    "germany": "030/2dddddd",
    "netherlands": "06-2ddddddd",
    "italy": "02 3dddddd",
    "switzerland": "044 6dd dd dd",
    "australia": "(02) 9ddd dddd",
    "brazil": "(11) 9dddd-dddd",
    "india": "98ddd ddddd",
    "china": "138 dddd dddd",
    "turkey": "0532 2dd dd dd",
    "philippines": "0917 2dd dddd",
    "spain": "61d dd dd dd",
}


def digits(template: str) -> Make:
    """The template with random digits for every d."""

    def make(chance: random.Random) -> tuple[str, str]:
        text = "".join(chance.choice(string.digits) if character == "d" else character for character in template)
        return text, text

    return make


def short_card(chance: random.Random) -> tuple[str, str]:
    start, length = chance.choice([("5018", 11), ("6304", 11), ("6759", 11), ("1220", 14), ("3782", 14)])
    text = luhn(start + "".join(chance.choices(string.digits, k=length - len(start))))
    return text, text


def written_iban(chance: random.Random) -> tuple[str, str]:
    compact, _ = iban(chance)
    compact = compact.replace(" ", "")
    spaced = f"{compact[:2]} {compact[2:4]} " + " ".join(compact[place : place + 4] for place in range(4, len(compact), 4))
    text = chance.choice(
        [compact.lower(), " ".join(compact.lower()[place : place + 4] for place in range(0, len(compact), 4)), spaced]
    )
    return text, text


def birth_date(chance: random.Random) -> tuple[str, str]:
    day, month, year = chance.randint(10, 28), chance.randint(1, 12), chance.randint(1930, 2010)
    name = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ]
    numbers = f"{day}.{month:02d}.{year}"
    label, date = chance.choice(
        [
            ("DOB: ", f"{month:02d}/{day}/{year}"),
            ("date of birth: ", f"{year}-{month:02d}-{day}"),
            ("Jane Roe, born on ", f"{day} {name[month - 1]} {year}"),
            ("She was born ", f"{name[month - 1]} {day}, {year}"),
            ("geboren am ", numbers),
            ("Geburtsdatum: ", numbers),
            ("née le ", f"{day}/{month:02d}/{year}"),
            ("fecha de nacimiento: ", numbers),
        ]
    )
    return label + date, date


def passport(chance: random.Random) -> tuple[str, str]:
    number = chance.choice("CFGHJK") + "".join(chance.choices(string.digits, k=8))
    label = chance.choice(["passport number: ", "Passport No. ", "my passport is ", "Reisepass ", "passeport ", "passport_number="])
    return label + number, number


def ip_address(chance: random.Random) -> tuple[str, str]:
    version_4 = ".".join(str(chance.randint(32, 255)) for _ in range(4))
    groups = [f"{chance.randint(4096, 65535):x}" for _ in range(8)]
    text = chance.choice(
        [version_4, f"{version_4}/24", ":".join(groups), f"2001:db8::{groups[0]}", f"fe80::{groups[1]}:{groups[2]}"]
    )
    return text, text


def machine_address(chance: random.Random) -> tuple[str, str]:
    pairs = [f"{chance.randint(0, 255):02x}" for _ in range(5)] + ["af"]
    text = chance.choice(
        [":".join(pairs), "-".join(pairs).upper(), ".".join("".join(pairs[place : place + 2]) for place in (0, 2, 4))]
    )
    return text, text


HEX = "0123456789abcdef"
CANARIES: dict[str, Make] = {
    "own_api_key": token("assay_", 43, ALPHANUMERIC + "-_"),
    "discord_token": within('discordToken = "SECRET"', 64, HEX),
    "discord_bot": token("MTA5" + "x7Ab" * 5 + ".Gx7a2b.", 38),
    "facebook": token("EAACEd", 110),
    "facebook_secret": within("facebook_app_token: SECRET", 32, HEX),
    "sentry": token("sntryu_", 64, HEX),
    "sourcegraph": token("sgp_", 40, HEX),
    "terraform": token("aB3dE5fG7hI9kL.atlasv1.", 65),
    "fly": token("fo1_", 43),
    "one_password": token("ops_eyJ", 250),
    "vault_batch": token("hvb.", 140),
    "grafana_cloud": token("glc_", 40),
    "gitlab_runner": token("glrt-t1_", 27),
    "gitlab_agent": token("glagent-", 50),
    "gitlab_feed": token("glft-", 20),
    "artifactory": token("AKCp", 69),
    "stripe_restricted": token("rk_prod_", 40),
    "telegram": token("12345678:AA", 33),
    "curl_login": within("curl -u deploy:SECRET https://example.org", 14),
    "named_value": within('<add key="ClearTextPassword" value="SECRET" />', 12),
    "short_card": short_card,
    "written_iban": written_iban,
    "birth_date": birth_date,
    "passport": passport,
    "ip_address": ip_address,
    "machine_address": machine_address,
    **{f"phone_{country}": digits(template) for country, template in LOCAL_PHONES.items()},
    "aws_access_key": upper_key("AKIA"),
    "aws_session_key": upper_key("ASIA"),
    "aws_secret": within("aws_secret_access_key = SECRET", 40, BASE64),
    "openai": token("sk-", 48),
    "openai_project": token("sk-proj-", 60, ALPHANUMERIC + "-_"),
    "anthropic": token("sk-ant-api03-", 90, ALPHANUMERIC + "-_"),
    "github": token("ghp_", 36),
    "github_fine": token("github_pat_", 70, ALPHANUMERIC + "_"),
    "gitlab": token("glpat-", 20),
    "slack": token("xoxb-", 40, string.digits + "-"),
    "google": token("AIza", 35),
    "stripe": token("sk_live_", 24),
    "npm": token("npm_", 36),
    "package_index": token("pypi-AgEIcHlwaS5vcmc", 60),
    "hugging_face": token("hf_", 34),
    "sendgrid": within("SG." + "a1" * 11 + ".SECRET", 43),
    "groq": token("gsk_", 52),
    "jwt": json_web_token,
    "bearer": within("Authorization: Bearer SECRET", 32),
    "bearer_alone": within("Bearer SECRET", 24),
    "basic": basic_authorization,
    "private_key": private_key,
    "postgres": within("postgresql://app:SECRET@db.internal:5432/app", 14),
    "private_url": within("https://deploy:SECRET@git.example.org/x.git", 20),
    "azure_storage": within("AccountName=x;AccountKey=SECRET==;EndpointSuffix=y", 86, BASE64),
    "azure_openai": within("api-key: SECRET", 32, "0123456789abcdef"),
    "shared_access": within("https://x.blob.example.net/c?sv=2024&sig=SECRET%3D", 43),
    "password": within("password=SECRET", 10),
    "password_colon": within("DB_PASSWORD: SECRET", 12),
    "password_json": within('{"password": "SECRET"}', 9),
    "password_spoken": within("the password is SECRET, please change it", 10),
    "api_key": within('api_key: "SECRET"', 24),
    "api_key_spoken": within("my API key is SECRET", 32),
    "client_secret": within("client_secret=SECRET&grant_type=x", 30),
    "entropy": within("token SECRET", 40),
    "cookie": within("Set-Cookie: session=SECRET; HttpOnly", 30),
    "email": email,
    "card": payment_card,
    "amex": amex,
    "iban": iban,
    "social_security_number": social_security_number,
    "phone": phone,
}

CONTEXTS: tuple[Callable[[str], str], ...] = (
    lambda text: text,
    lambda text: f"Contact: {text} thanks",
    lambda text: f"Line one\n{text}\nline three",
    lambda text: f"({text})",
    lambda text: f"She wrote “{text}” and left.",
    lambda text: f"§ 823 BGB, am 12.03.2019:\t{text}.",
    lambda text: f"`{text}`",
    lambda text: f"日本語 {text} です",
    lambda text: json.dumps({"note": f"a {text} b"}),
    lambda text: json.dumps(json.dumps([f"see {text} there"])),
    lambda text: f"<p>{text}</p>",
    lambda text: f"first {text}, then {text}",
)


def variants(secret: str) -> set[str]:
    """The secret as it may stand in a file."""
    escaped = json.dumps(secret)[1:-1]
    return {secret, escaped, json.dumps(escaped)[1:-1], quote(secret, safe="")}
