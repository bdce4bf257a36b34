"""Rules for personal data: e-mail and machine addresses, numbers, dates of birth."""

import ipaddress
import re

from assay.store import redact_patterns as checks
from assay.store.redact_patterns import (
    ABROAD,
    BREAK,
    DASH,
    EDGE,
    GAP,
    LETTER,
    QUOTE,
    SIGN,
    SPACE,
    Rule,
    Span,
    is_in_word,
    value_of,
    when,
    whole_number,
)

_MONTHS = (
    "jan(?:uary|uar|vier|uari)?|jän(?:ner)?|ene(?:ro)?|gen(?:naio)?|janeiro|feb(?:ruary|ruar|brero|braio|ruari)?|févr?(?:ier)?|fevereiro"
    "|mar(?:ch|s|zo|ço)?|märz?|maart|apr(?:il|ile)?|abr(?:il)?|avr(?:il)?|ma[iy]|mayo|maggio|maio|mei|june?|juni|juin|junio|giugno|junho"
    "|july?|juli|juillet|julio|luglio|julho|aug(?:ust|ustus)?|août|agosto|sep(?:t(?:ember|embre|iembre)?)?|settembre|setembro"
    "|o[ck]t(?:ober|obre|ubre)?|ottobre|outubro|nov(?:ember|embre|iembre|embro)?|de[cz](?:ember|embre|embro)?|déc(?:embre)?"
    "|dic(?:iembre|embre)?"
)
_DATE = (
    r"(?:\d{1,2}[./-] ?\d{1,2}[./-] ?(?:\d{4}|\d{2})|\d{4}[./-]\d{1,2}[./-]\d{1,2}"
    rf"|\d{{1,2}}(?:st|nd|rd|th|er|[.º])?(?: of| de)?[ -](?:{_MONTHS})[.]?,?(?: de)?[ -]\d{{2,4}}"
    rf"|(?:{_MONTHS})[.]? \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}"
    r"|\d{4}年 ?\d{1,2}月 ?\d{1,2}日|(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\b)"
)
_BIRTH = (
    r"(?:\bdob|d[.]o[.]b[.]?|date[ _-]?of[ _-]?birth|birth[ _-]?(?:date|day)|\bborn|\bgeboren|\bgeb[.](?: ?(?:am|:))?"
    r"|geburts(?:datum|tag)|geboortedatum|date[ _-]?de[ _-]?naissance|\bnée? le|fecha[ _-]?de[ _-]?nacimiento|\bnacid[oa]"
    r"|data[ _-]?di[ _-]?nascita|\bnat[oa] il|data[ _-]?de[ _-]?nascimento|\bnascid[oa]"
    r"|дата[ _-]?рождения|生年月日|出生日期|생년월일)"
)
_BIRTH_TRIGGER = (
    r"(?i)(?:dob|d[.]o[.]b|birth|born|geboren|geb[.]|geburts|geboortedatum|naissance|n(?:é|\\u00e9)e? le|nacimiento|nacid[oa]"
    r"|nascita|nat[oa] il|nasciment|nascid|рождения|生年月日|出生日期|생년월일)[^\n]{0,20}?\d"
)
_PASSPORT = (
    "(?:passport|passeport|pasaporte|passaporto|passaporte|paspoort|reisepass|pass[- ]?(?:nr|nummer)|travel document"
    "|여권|护照|パスポート)"
)

_COUNTRIES = "|".join(checks.IBAN_LENGTHS)

_PHONE_LABELS = (
    r"tel(?:efon|ephone|éfono|efono|efoon|efone)?(?:nummer|nr)?|phone|fax|mobile?|móvil|handy|cell(?:phone|ulare|ular)?|celular|whatsapp"
    r"|call(?: me)?(?: at| on)?|text me(?: at| on)?|rufnummer|téléphone|hotline|helpline|电话|電話|전화"
    r"|(?:my|his|her|their|our) (?:[A-Za-z]+ ){0,2}number"
)
# Local numbers have no form of their own; each line is the grouping of some countries, so that tables of numbers stay.
_LOCAL_PHONES = "|".join(
    (
        # A trunk prefix and one group: Germany, Italy, the Netherlands, Israel.
        rf"0[1-9]\d{{0,3}}(?:{SPACE}|/|{SPACE}/{SPACE})\d{{6,8}}",
        # A trunk prefix and two groups: the United Kingdom, Japan, Korea, Australia, the Philippines.
        rf"0[1-9]\d{{0,3}}{SPACE}\d{{3,4}}{SPACE}\d{{3,4}}",
        rf"\(0[1-9]\d{{0,3}}\){SPACE}?\d{{3,4}}{SPACE}?\d{{3,4}}",
        # Pairs: France, Switzerland, Belgium, Turkey.
        rf"0[1-9](?:(?:{SPACE}|[.])\d{{2}}){{4}}",
        rf"\(?0[1-9]\d{{1,2}}\)?{SPACE}\d{{3}}{SPACE}\d{{2}}{SPACE}\d{{2}}",
        rf"0[1-9]\d{{2}}(?:{SPACE}\d{{2}}){{3}}",
        r"[6-9]\d{2}(?: \d{2}){3}",
        # The trunk prefix apart from the rest: Turkey, the Philippines.
        rf"0{SPACE}\(?[2-9]\d{{2}}\)?{SPACE}\d{{3}}{SPACE}?(?:\d{{4}}|\d{{2}}{SPACE}\d{{2}})",
        # Brazil, India, China.
        r"\(\d{2}\) ?9?\d{4}-\d{4}",
        r"[6-9]\d{4}[ -]\d{5}",
        rf"1[3-9]\d{SPACE}\d{{4}}{SPACE}\d{{4}}",
        # Mobile numbers in one piece.
        r"0[5-9]\d{8,9}|01[5-7]\d{8,9}",
    )
)


def _phone(text: bytes, span: Span) -> Span | None:
    start, end = span
    before = text[max(0, start - 3) : start].rstrip(b" ")[-1:]
    # `5 +12345678` is a sum; a sum has no gaps inside its numbers.
    is_sum = (before.isdigit() or before == b")") and text[start + 1 : end].isdigit()
    return None if is_sum else whole_number(checks.is_phone_number)(text, span)


_is_seed = re.compile(rb"(?i)seed[\\\"']*\s*[:=]\s*\Z").search


def _card(text: bytes, span: Span) -> Span | None:
    """Accept a number with a valid check digit, unless its label says that it is a random seed."""
    if _is_seed(text[max(0, span[0] - 16) : span[0]]):
        return None
    found = _card_number(text, span)
    # `4111 1111 1111 1111 411`: the last group begins the next number.
    shorter = span[0] + len(value_of(text, span).rstrip("0123456789").rstrip(" -").encode())
    return found or (_card_number(text, (span[0], shorter)) if shorter > span[0] else None)


_card_number = whole_number(checks.is_card_number)


def _email(text: bytes, span: Span) -> Span | None:
    start, end = span
    # The address of a repository, which every clone command repeats.
    if text.startswith(b"git@", start):
        return None
    # The `n` of an escaped newline is not part of a name.
    is_escape = text[start - 1 : start] == b"\\" and text[start : start + 1] in (b"n", b"r", b"t")
    return (start + is_escape, end)


def _iban(text: bytes, span: Span) -> Span | None:
    value = value_of(text, span)
    length = len(value[: checks.iban_length(value)].encode())
    end = span[0] + length
    return (span[0], end) if length and not text[end : end + 1].isalnum() else None


_social_security_number = whole_number(checks.is_social_security_number)
_is_split_otherwise = re.compile(rb"\d{5}\D+\d{4}").fullmatch
_names_the_number = re.compile(
    rb"(?i)\b(?:ssn|itin|social security|tax(?:payer)? id|\d{3}-?\d{2}-?\d{4}|\[REDACTED:social_security_number\])[^\n]{0,24}\Z"
).search


def _social_security(text: bytes, span: Span) -> Span | None:
    """Accept a number that can have been issued; one in the form of a ZIP+4 code only after its name or another number."""
    is_clear = not _is_split_otherwise(text[span[0] : span[1]]) or _names_the_number(text[max(0, span[0] - 64) : span[0]])
    return _social_security_number(text, span) if is_clear else None


_numbering = re.compile(
    rb"(?i)(?:\bv|version|release|build|section|sec|chapter|clause|article|art|par|abschnitt|kapitel|ziff(?:er)?|rn|rz|no|nr|\xc2\xa7)"
    rb"[.:]?\s*\Z"
).search
_speaks_of_machines = re.compile(
    rb"(?i)(?:\bip|client_?ip|ipv[46]|addr|adress|host|server|src|dst|source|gateway|inet6?|unspecified|bind|listen)"
).search
_port = re.compile(rb":\d{2,5}\b").match


def _ipv4(text: bytes, span: Span) -> Span | None:
    start, end = span
    if is_in_word(text, start) or text[start - 1 : start] in (b".", b"_") or text[end : end + 1].isalnum():
        return None
    octets = value_of(text, span).partition("/")[0].split(".")
    if any(int(octet) > 255 or (octet[0] == "0" and octet != "0") for octet in octets):
        return None
    before = text[max(0, start - 24) : start]
    if _numbering(before):
        return None
    # Numbers of sections, versions and objects have the same form, and are small.
    is_small = all(int(octet) < 32 for octet in octets) and octets[0] not in ("0", "10")
    has_prefix = b"/" in text[start:end] or _port(text, end)
    return span if not is_small or has_prefix or _speaks_of_machines(before) else None


def _ipv6(text: bytes, span: Span) -> Span | None:
    start, end = span
    value = value_of(text, span).rstrip(".")
    address, _, prefix = value.partition("/")
    following = text[end : end + 1]
    if is_in_word(text, start) or text[start - 1 : start] in (b":", b"_") or following in (b":", b"_") or following.isalnum():
        return None
    if following == b"." and text[end + 1 : end + 2].isdigit():
        return None
    try:
        # The pattern is loose, because the grammar of shortened addresses is not regular enough; the parser decides.
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return None
    digits = sum(character.isalnum() for character in address)
    # `x :: Int`, `a[::1]` and `1::2` are code and ratios.
    is_slice = text[start - 1 : start] == b"[" and text[max(0, start - 2) : start - 1].isalnum()
    # `1:2:3:4:5:6:7:8` may be a ratio, a score or a list.
    is_list = all(len(group) == 1 for group in address.split(":"))
    is_certain = (
        (digits >= 4 and any(map(str.isdigit, address)) and not is_list) or bool(prefix) or (parsed.is_loopback and not is_slice)
    )
    is_meant = is_certain or _speaks_of_machines(text[max(0, start - 24) : start])
    return (start, start + len(value)) if is_meant else None


# Exams and court decisions name people by a letter, `Xenia (X), geboren am 04.05.2012`: the date then identifies no person.
# A bare `I` is the speaker.
_is_anonymised = re.compile(rb"(?:\([A-Z]\d?\)|(?:\A|[^\w.])(?:[A-HJ-Z]\d?[.]?|I\d[.]?|I[.])),?\s+(?:\w+ )?\Z").search


def _date_of_birth(text: bytes, span: Span) -> Span | None:
    before = text[max(0, span[0] - 64) : span[0]]
    label = next(reversed(list(_label_of_birth(before))), None)
    if label is None:
        return span
    whom = before[: label.start()]
    # `Lisa, geb. 12.03.2019` is in every family law exam: without `am` the rule requires a first and a last name.
    is_short = label[0].lower() == b"geb." and not before[label.end() :].strip()
    is_meant = not is_short or _ends_in_full_name(whom.decode("utf-8", "replace"))
    return span if is_meant and not _is_anonymised(whom) else None


_RELATIVES = "Tochter|Sohn|Kind|Bruder|Schwester|Mutter|Vater|Ehefrau|Ehemann|Enkel|Nichte|Neffe|Frau|Mann|Partner|Freund"
_ends_in_full_name = re.compile(rf"\b(?!(?:{_RELATIVES})(?:in|es|s)?\b)[A-ZÀ-Þ][\w'-]+ [A-ZÀ-Þ][\w'-]+,? ?\(?\Z").search
_label_of_birth = re.compile(rb"(?i)\b(?:born|geboren|geb\.|nacid|nat[oa]|n\xc3\xa9e?)\b|geb\.").finditer


def _machine(text: bytes, span: Span) -> Span | None:
    start, end = span
    joint = text[start + 2 : start + 3]
    is_part = is_in_word(text, start) or text[start - 1 : start] in (b":", b"-", b".") or text[end : end + 1].isalnum()
    if is_part or text[end : end + 1] in (b":", b"-"):
        return None
    value = value_of(text, span)
    has_letter = any(map(str.isalpha, value))
    is_meant = (
        has_letter or joint == b":" or re.search(rb"(?i)\bmac\b|hardware|physical|ethernet", text[max(0, start - 24) : start])
    )
    return span if is_meant else None


_phone_number = whole_number(checks.is_phone_number)
_local_number = whole_number(checks.is_local_phone_number)
_other_number = re.compile(
    rb"(?i)(?:card|account|order|case|customer|invoice|reference|ticket|member|policy|passport|licen[cs]e|booking|id)"
    rb" (?:number|no|nr)\W"
).search


def _labelled_phone(text: bytes, span: Span) -> Span | None:
    """Accept a number after `my number is` and the like, unless the label is that of another kind of number."""
    return None if _other_number(text, max(0, span[0] - 24), span[0]) else _phone_number(text, span)


def _local_phone(text: bytes, span: Span) -> Span | None:
    """Accept a number that stands alone: adjacent groups make it part of an account number or a table."""
    start, end = span
    is_part = _digits_before(text, max(0, start - 5), start) or _digits_after(text, end)
    return None if is_part else _local_number(text, span)


_digits_before = re.compile(rb"[0-9A-Z]{4}[ -]\Z").search
_digits_after = re.compile(rb"[ -]\d").match


def _glued_phone(text: bytes, span: Span) -> Span | None:
    """Accept a number with clear groups, even when the space before it is missing."""
    start, end = span
    if text[max(0, start - 1) : start].isalpha() and text[max(0, start - 1) : start].islower() and b"-" in text[start:end]:
        return span if not text[end : end + 1].isalnum() else None
    return _phone_number(text, span)


# Named, because the redactor leaves the hosts of the run's own providers: they are settings of the operator.
IP_ADDRESS = "ip_address"
PERSONAL: tuple[Rule, ...] = (
    Rule(
        "email",
        rf"(?:@|%40)(?:{LETTER}|\\)",
        rf"({SIGN}(?:{SIGN}|[._%+'-])*(?:@|%40)(?:{SIGN}(?:-*{SIGN})*[.])+(?:[A-Za-z{ABROAD}]{{2}}|xn--){LETTER}*)",
        _email,
    ),
    Rule(
        "iban",
        rf"(?:{_COUNTRIES}){SPACE}?\d{{2}}{SPACE}?(?:[A-Z0-9]{{2}}{SPACE}?){{2}}[A-Z0-9]"
        rf"|(?:{_COUNTRIES.lower()})\d{{2}}{SPACE}?[a-z0-9]{{4}}{SPACE}?\d",
        rf"{EDGE}((?:{_COUNTRIES}){SPACE}?\d{{2}}(?:{SPACE}?[A-Z0-9]){{11,30}}"
        rf"|(?:{_COUNTRIES.lower()})\d{{2}}(?:{SPACE}?[a-z0-9]){{11,30}})",
        _iban,
        is_number=True,
    ),
    Rule(
        "payment_card",
        rf"\d{{12}}|\d{{4}}{GAP}\d{{4,6}}{GAP}\d{{4,5}}",
        rf"(\d{{4}}{GAP}\d{{4}}{GAP}\d{{4}}{GAP}\d{{4}}(?:{GAP}\d{{3}})?"
        rf"|\d{{4}}{GAP}\d{{6}}{GAP}\d{{4,5}}|\d{{4}}{GAP}\d{{4}}{GAP}\d{{4}}|\d{{12,19}})",
        _card,
        is_number=True,
    ),
    Rule(
        "social_security_number",
        rf"\d{{3}}(?:{DASH}|[ .])\d{{2}}(?:{DASH}|[ .])\d{{4}}|\d{{3}}{DASH}\d{{6}}",
        rf"(\d{{3}}{DASH}\d{{2}}{DASH}\d{{4}}|\d{{3}} \d{{2}} \d{{4}}|\d{{3}}[.]\d{{2}}[.]\d{{4}}|\d{{3}}{DASH}\d{{6}}"
        rf"|\d{{5}}{DASH}\d{{4}})",
        _social_security,
        is_number=True,
    ),
    Rule(
        "social_security_number",
        r"(?i)(?:ssn|social security)[^\d\n]{0,20}\d{3}",
        r"(?i)(?:\bssn|social security)(?: (?:number|no[.]?))?(?: is)?[ :#=\"']{0,4}(\d{3}[ -]?\d{2}[ -]?\d{4})",
        whole_number(checks.is_social_security_number),
        is_number=True,
    ),
    Rule(
        "passport",
        rf"(?i){_PASSPORT}|[A-Z]<<[A-Z]",
        rf"(?i)(?:{_PASSPORT}(?:s|e|es|['\x{{2019}}]s)?(?:[ _-]?(?:numbers?|no|nr|nummer|num|#|id|card|번호))?[.]?"
        rf"(?:{QUOTE}\s*:\s*\{{\s*{QUOTE}(?:number|no|nr|id))?(?: of(?: [\pL.'-]{{1,20}}){{1,4}}?)?"
        rf"(?: [A-Za-z]{{2,10}}\b)?(?:[\s:=#(]|{QUOTE}|는){{0,4}}([A-Z0-9]{{6,12}})\b"
        rf"|\b([A-Z0-9]{{6,12}})(?: [\pL]+){{1,4}} {_PASSPORT}"
        r"|(P[A-Z<][A-Z]{3}[A-Z<]{39}(?:\s|\\n)*(?:[A-Z0-9<]{44})?))",
        when(checks.is_passport_number),
    ),
    Rule(
        "date_of_birth",
        _BIRTH_TRIGGER,
        rf"(?i){_BIRTH}(?: ?\([A-Z][A-Z/. -]{{1,11}}\))?(?: (?:is|was|on(?: the)?|am|op|em|el|le|il|ist|war))?"
        rf"(?:[\s:=,(*\x{{ff1a}}]|{QUOTE}|\\n)*({_DATE})",
        _date_of_birth,
    ),
    Rule(
        "phone",
        rf"\+\d(?:{BREAK}|[\d()]){{6}}|00[34]\d{BREAK}",
        rf"(\+\d{{1,3}}{BREAK}{{0,2}}(?:\(\d{{1,4}}\){BREAK}?)?\d(?:{BREAK}?\d){{5,12}}|00[34]\d(?:{BREAK}\d+){{2,5}})",
        _phone,
        is_number=True,
    ),
    Rule(
        "phone",
        rf"\d{{3}}\)?{BREAK}?\d{{3}}{BREAK}\d{{4}}",
        rf"((?:\d{{1,2}}{BREAK})?(?:\([2-9]\d{{2}}\){BREAK}?[2-9]\d{{2}}{BREAK}|[2-9]\d{{2}}(?:[.]|{DASH})[2-9]\d{{2}}(?:[.]|{DASH}))\d{{4}})",
        _glued_phone,
        is_number=True,
    ),
    Rule(
        "phone",
        rf"0[1-9](?:{BREAK}|[\d()]){{7}}|\(\d{{2}}\) ?9?\d{{4}}-|[6-9]\d{{4}}[ -]\d{{5}}|[6-9]\d{{2}} \d{{2}} \d{{2}} \d{{2}}"
        rf"|1[3-9]\d{SPACE}\d{{4}}{SPACE}\d{{4}}|0{SPACE}\(?[2-9]\d{{2}}\)?{SPACE}\d{{3}}",
        rf"({_LOCAL_PHONES})",
        _local_phone,
        is_number=True,
    ),
    Rule(
        "phone",
        r"(?i)(?:tel|phone|fax|mobile|mobil|móvil|handy|cell|celular|whatsapp|call|text me|ruf|téléphone|line|number"
        r"|电话|電話|전화)[^\d\n]{0,12}\d{2}",
        rf"(?i)\b(?:{_PHONE_LABELS})(?: (?:number|no|nr|nummer))?[.]?(?: is| ist| es| est)?"
        rf"[ :=\"'\x{{a0}}\x{{202f}}]{{1,4}}(\(?\d(?:{BREAK}|[\d()]){{6,18}}\d)",
        _labelled_phone,
        is_number=True,
    ),
    Rule(
        "machine_address",
        r"[0-9A-Fa-f]{2}[:-][0-9A-Fa-f]{2}[:-][0-9A-Fa-f]{2}[:-]|[0-9A-Fa-f]{4}[.][0-9A-Fa-f]{4}[.][0-9A-Fa-f]{4}",
        r"([0-9A-Fa-f]{2}(?:(?::[0-9A-Fa-f]{2}){5}|(?:-[0-9A-Fa-f]{2}){5})|[0-9A-Fa-f]{4}[.][0-9A-Fa-f]{4}[.][0-9A-Fa-f]{4})",
        _machine,
        is_number=True,
    ),
    Rule(
        IP_ADDRESS,
        r"::|[0-9A-Fa-f]:[0-9A-Fa-f]+:[0-9A-Fa-f]+:[0-9A-Fa-f]+:",
        r"((?:[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){0,7})?(?:::?)(?:[0-9A-Fa-f]{1,4}:){0,6}"
        r"(?:\d{1,3}(?:[.]\d{1,3}){3}|[0-9A-Fa-f]{1,4})?(?:%[A-Za-z0-9]+)?(?:/\d{1,3})?)",
        _ipv6,
        is_number=True,
    ),
    Rule(
        IP_ADDRESS,
        r"\d[.]\d{1,3}[.]\d{1,3}[.]\d",
        r"(\d{1,3}(?:[.]\d{1,3}){3}(?:/\d{1,2}\b)?)",
        _ipv4,
        is_number=True,
    ),
)
