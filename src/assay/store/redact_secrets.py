"""Rules for secrets: tokens recognised by their form, and others by their context."""

import re

from assay.store import redact_patterns as checks
from assay.store.redact_patterns import EDGE, QUOTE, Rule, Span, value_of, when

_PREFIXED = (
    # Model providers and their tools.
    "gsk_|r8_|pplx-|xai-|nvapi-|csk-|tgp_v1_|jina_|pcsk_|tvly-|lsv2_(?:pt|sk)_|[ps]k-lf-|ph[cx]_|wandb_v1_|apify_api_|bedrock-api-key-|ABSK"
    # Hosting, builds and packages.
    "|do[opr]_v1_|dapi[0-9A-Fa-f]|vc[aciprk]_|cf(?:k|at|ut)_|napi_|rubygems_|dckr_[op]at_|CLOJARS_|fm1[ar]_|fm2_|fo1_|HRKU-|pscale_(?:tkn|oauth|pw)_|pnu_|pul-"
    "|tk-us-|CCIPAT_|AKCp|cmVmd|sbp_|sb_secret_|rdme_|sha256~|tskey-|ico-|dnkey-"
    "|nfp_|figd_|p8e-|s-s4t2(?:ud|af)-|sm_[aps]at_"
    # Shops and payment.
    "|shp(?:at|ca|pa|ss|ua)_|EAAA|EZ[AT]K|duffel_(?:test|live)_|FLW(?:SEC|PUB)K|shippo_(?:test|live)_"
    "|rzp_(?:test|live)_|access_token[$]production[$]|access-(?:sandbox|development|production)-|amzn[.]mws[.]"
    # Observation and code quality.
    "|gl(?:sa|c)_|eyJrIjoi|NR(?:AK|II|IQ|JS|BR|RA|SP|AL)-|hcaik_|rootly_|sntry[su]_|dt0[a-z][0-9]{2}[.]|sq[apu]_|sg[dp]_"
    # Secrets managers and identity.
    "|hv[bsr][.]|dp[.](?:pt|st|ct|sa|scim|audit)[.]|ops_eyJ|AGE-SECRET-KEY-1|[.]atlasv1[.]|ory_(?:at|st)_"
    # Collaboration and mail.
    "|lin_(?:api|oauth)_|ntn_|PMAK-|ATATT3|ATCTT3|ATBB|BBDC-|tfp_|fio-u-|CFPAT-|xkeysib-|xsmtpsib-"
    "|pat-(?:na|eu|ap)[0-9]-|mlsn[.]|bxt_"
)
# After a prefix that only one vendor uses, any long enough tail is a key, regardless of its alphabet.
_TAIL = r"[A-Za-z0-9_=+/.~-]{12,}"

_OTHERS: tuple[tuple[str, str], ...] = (
    ("key-[0-9a-z]{8}", "(?:pub)?key-[0-9a-f]{32}"),
    ("-us[0-9]", r"[0-9a-f]{32}-us\d{1,2}"),
    ("_mmk", "[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk"),
    ("A3-[A-Z0-9]{6}-", "A3-[A-Z0-9]{6}(?:-[A-Z0-9]{5,11}){4,5}"),
    (r"pat[A-Za-z0-9]{14}[.][0-9a-f]", "pat[A-Za-z0-9]{14}[.][0-9a-f]{64}"),
    ("[ps]at[.]", "[ps]at[.][A-Za-z0-9_-]{22}[.][A-Za-z0-9]{24}[.][A-Za-z0-9]{20}"),
    (r"v1[.]0-[0-9a-f]{8}", "v1[.]0-[0-9a-f]{24}-[0-9a-f]{146}"),
    ("4b1d", "4b1d[A-Za-z0-9]{38}"),
    (r"\d{15}[|%]", r"\d{15,16}(?:\||%7[Cc])[A-Za-z0-9_-]{25,}"),
    ("[.]acc[_-]", r"[a-z]{2,8}_[A-Za-z0-9]{5,30}[.][A-Za-z0-9]{4,6}[.]acc[_-][A-Za-z0-9-]{10,32}[.][A-Za-z0-9+/_=-]{30,}"),
    ("A{20}", "A{20}[A-Za-z0-9%]{50,}"),
    ("[012]/[0-9]{16}", r"[012]/\d{16}(?:/\d{16})?:[0-9a-f]{32}"),
    ("AZDO|JQQJ99", "[A-Za-z0-9]{52,76}(?:AZDO|JQQJ99)[A-Za-z0-9]{4,30}"),
    (
        "[.][GXY][A-Za-z0-9_-]{5,6}[.][A-Za-z0-9_-]",
        "[A-Z][A-Za-z0-9_-]{23,27}[.][A-Za-z0-9_-]{6,7}[.][A-Za-z0-9_-]{27,45}",
    ),
    ("1//0", "1//0[A-Za-z0-9_-]{40,}"),
    ("sl[.]", "sl[.][A-Za-z0-9_=-]{100,}"),
    ("EAA[A-Z]", "EAA[A-Z][A-Za-z0-9]{60,}"),
    ("oy2", "oy2[a-z0-9]{43}"),
    ("bk[a-z]{2}_", "bk[a-z]{2}_[A-Za-z0-9]{30,}"),
    ("API-[A-Z0-9]{8}", "API-[A-Z0-9]{25,}"),
    ("secret_[A-Za-z0-9]{4}", "secret_[A-Za-z0-9]{43}"),
    ("fc-[0-9a-f]{8}", "fc-[0-9a-f]{32}"),
    ("da2-", "da2-[a-z0-9]{26}"),
    ("aio_", "aio_[A-Za-z0-9]{28}"),
    ("rnd_", "rnd_[A-Za-z0-9]{28,}"),
    ("-NR(?:AL|MA)", "(?:[a-z]{2}[0-9]{2}xx)?[0-9A-Fa-fx]{36,42}-?(?:FFFF)?NR(?:AL|MA)"),
    ("(?:api|sdk|mob)-[0-9a-f]{8}-", "(?:api|sdk|mob)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    ("sq0[a-z]{3}-", r"sq0[a-z]{3}-[0-9A-Za-z\\_\[\]^`-]{22,}"),
    ("LTAI", "LTAI[A-Za-z0-9]{12,24}"),
    ("re_[A-Za-z0-9]{8}_[A-Za-z0-9]", "re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}"),
    ("AQVN", "AQVN[A-Za-z0-9_-]{35,}"),
    ("t1[.]", "t1[.][A-Za-z0-9_-]+={0,2}[.][A-Za-z0-9_-]{80,}={0,2}"),
    ("GR1348941", "GR1348941[A-Za-z0-9_-]{20,}"),
    ("_gitlab_session=", "_gitlab_session=[0-9a-z]{32}"),
)

_NAMED_TOKENS: tuple[tuple[str, str, str], ...] = (
    ("assay_key", "assay_[A-Za-z0-9_-]{8}", "(assay_[A-Za-z0-9_-]{40,})"),
    ("anthropic_key", "sk-ant-", r"(sk-ant-[A-Za-z0-9_-]{16,})"),
    (
        "stripe_key",
        "[srp]k_(?:live|test|prod)_|whsec_",
        r"((?:[srp]k_(?:live|test|prod)|whsec)_[A-Za-z0-9]{10,})",
    ),
    ("github_token", "gh[pousr]_|github_pat_", r"((?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}))"),
    (
        "gitlab_token",
        "gl(?:pat|ptt|dt|rt|rtr|soat|cbt|ffct|ft|imt|agent|oas|wt)-",
        r"(gl(?:pat|ptt|dt|rt|rtr|soat|cbt|ffct|ft|imt|agent|oas|wt)-[A-Za-z0-9_.-]{16,})",
    ),
    (
        "slack_token",
        "xox[a-eoprs]-|xapp-|xoxe[.]",
        r"((?:xox[a-eoprs]-|xoxe[.]xox[bp]-|xapp-)(?:[A-Za-z0-9-]*\d{2}[A-Za-z0-9-]{4,}|(?:\d-)?[a-z0-9]{12}\b))",
    ),
    ("google_key", "AIza|ya29[.]|GOCSPX-", r"((?:AIza[A-Za-z0-9_-]{30,}|ya29[.][A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}))"),
    ("npm_token", "npm_", r"(npm_[A-Za-z0-9]{30,})"),
    ("pypi_token", "pypi-", r"(pypi-[A-Za-z0-9_-]{32,})"),
    ("huggingface_token", "hf_|api_org_", r"((?:hf|api_org)_[A-Za-z0-9]{20,})"),
    ("azure_secret", r"\dQ~", r"([A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34})"),
    ("sendgrid_key", "SG[.]", r"(SG[.][A-Za-z0-9_=-]{16,}(?:[.][A-Za-z0-9_=-]{16,})?)"),
    ("twilio_key", "(?:AC|SK)[0-9A-Fa-f]{8}", r"((?:AC|SK)[0-9A-Fa-f]{32})"),
    ("telegram_token", r"\d{5}:A", r"(\d{5,16}:A[A-Za-z0-9_-]{32,})"),
)

_WEBHOOKS = (
    r"(hooks[.]slack[.]com/(?:services|workflows|triggers)/[A-Za-z0-9+/_-]{16,}"
    r"|hooks[.]zapier[.]com/hooks/catch/[A-Za-z0-9/_-]{8,}"
    r"|webhook[.]office[.]com/[^\s\"'<>\\]{32,}"
    r"|discord(?:app)?[.]com/api/webhooks/[A-Za-z0-9/_-]{24,})"
)

# Services whose keys have no prefix: a random value assigned to one of these names is a key.
_SERVICES = (
    "adafruit|adobe|airtable|algolia|alibaba|aliyun|artifactory|asana|atlassian|bamboo|beamer|bintray|bitbucket|bittrex|braintree|circleci"
    "|cloudflare|codecov|cohere|coinbase|confluence|confluent|contentful|contribsys|datadog|digitalocean|discord|dropbox|droneci|etsy"
    "|facebook|fastly|figma|finicity|finnhub|firebase|flickr|freshbooks|gitter|gocardless|grafana|heroku|hubspot|intercom|jenkins|jfrog"
    "|jira|kraken|kucoin|launchdarkly|linear|linked[_-]?in|lob|looker|mailchimp|mailgun|mapbox|mattermost|maxmind|meraki|message[_-]?bird"
    "|mistral|netlify|new[_-]?relic|newyorktimes|nytimes|okta|openai|pagerduty|paypal|plaid|private[_-]?ai|rapidapi|sendbird|sendgrid"
    "|sentry|shodan|shopify|snyk|sonar|sourcegraph|spotify|squarespace|(?-i:[Ss]umo|SUMO)|telegr|travis|trello|twilio|twitch|twitter|typeform|vercel|xray|yandex"
    "|zendesk"
)
_ASSIGNED = r"(?:[:?.|]{0,3}=>?|:|,|>|\|\|)"
_PARTS = "|".join(pattern for _, pattern in _OTHERS)

# Triggers begin with rare letters: a counted repetition in front made random text a hundred times slower to search.
TOKENS: tuple[Rule, ...] = (
    *(
        Rule(name, trigger, EDGE + pattern, when(lambda text: not checks.is_masked(text)))
        for name, trigger, pattern in _NAMED_TOKENS
    ),
    Rule("webhook", "hooks[.](?:slack|zapier)[.]com|webhook[.]office[.]com|[.]com/api/webhooks/", _WEBHOOKS),
    Rule(
        "vendor_token",
        "|".join((_PREFIXED, *(trigger for trigger, _ in _OTHERS))),
        rf"{EDGE}((?:[A-Za-z0-9]{{14}}[.]atlasv1[.]|{_PREFIXED}){_TAIL}|{_PARTS})",
        when(lambda text: checks.has_random_part(text) and not checks.is_masked(text)),
    ),
    # The same token encoded in base64 once more, as Kubernetes stores it.
    Rule("jwt", "ZXlK", rf"{EDGE}(ZXlK[A-Za-z0-9+/_-]{{60,}}={{0,2}})"),
    Rule(
        "service_key",
        rf"(?i)(?:{_SERVICES})[A-Za-z0-9_.-]*\\*[\"'`]?(?: string)?\s*{_ASSIGNED}",
        rf"(?i)(?:^|[^A-Za-z])(?:{_SERVICES})[A-Za-z0-9_.-]*{QUOTE}?(?: string)?\s*{_ASSIGNED}(?:\s|\\n|{QUOTE}|=)*"
        r"([A-Za-z0-9_/+=.~%|:-]{14,})",
        when(checks.is_token),
        is_secret=True,
    ),
)


_PASSWORDS = (
    r"pass(?:word|wort|wd|phrase|code)|pwd|kennwort|contraseña|mot de passe"
    r"|(?:db|sql|mysql|pg|postgres|mongo|redis|ldap|smtp|ftp|admin|root|user|login)[_-]p(?:ass|w)"
)
_KEYS = (
    r"(?:secret|api|access|auth|private|account|encryption|signing|subscription|master|service)"
    r"[ _-]?(?:access[ _-]?)?(?:key|token|secret)"
    r"|apikey|(?:refresh|session|bearer|id|bot|deploy|csrf)[ _-]?token|client[ _-]?secret|shared[ _-]?access[ _-]?key|secret"
)
NAMES = f"(?:{_PASSWORDS}|{_KEYS})"
"""Names whose values are always secret."""
_NAMED = rf"(?i){NAMES}(?:s|[_-]?\d{{1,3}})?"
_SPOKEN = rf"(?i)(?:{NAMES}|token|credential|creds)s?"
_NAMED_KEY = r"(?:[A-Za-z0-9]{2}[_-](?i:key)|[a-z0-9]Key)"
_QUERY = r"(?i)[?&](?:access_token|api[_-]?key|key|token|sig|signature|x-amz-signature|client_secret|password|auth)="
_SCHEMES = "bearer|basic|token|api-?key|api-?token|digest|negotiate|aws4-hmac-sha256"
_SEPARATORS = r"(?:[\s:=(\"'`\\,>?|.-]|\\n)"


def _assigned_secret(text: bytes, span: Span) -> Span | None:
    """Accept a value after `=` that is neither code nor a placeholder."""
    value = value_of(text, span)
    following = text[span[1] : span[1] + 1]
    # `A_KEY=` without a value is followed by the next name and its `=`.
    is_code = following in (b"(", b"[", b"{") or (following == b"=" and not checks.is_random(value))
    # `password = password`, `secret = self.secret`: the name of a variable.
    is_code = is_code or _is_name(value.strip("_").rpartition(".")[2]) is not None
    return None if is_code or checks.is_placeholder(value) else span


def _named_secret(text: bytes, span: Span) -> Span | None:
    """Accept a value after a colon or in a sentence, where most words are just words."""
    value = value_of(text, span).rstrip(".!?:")
    is_secret = checks.is_chosen_secret(value) and text[span[1] : span[1] + 1] not in (b"(", b"[")
    return (span[0], span[0] + len(value.encode())) if is_secret else None


def _random(text: bytes, span: Span) -> Span | None:
    """Accept a value after the word token or the like: long and random, or shorter in an assignment."""
    value = value_of(text, span)
    # An address is long and random-looking, and its secrets have rules of their own.
    if checks.is_placeholder(value) or "://" in value:
        return None
    before = text[max(0, span[0] - 12) : span[0]].rstrip(b" \t\r\n\\\"'`")
    is_assigned = before[-1:] in (b"=", b":", b",", b">", b"|") or text[span[0] - 1 : span[0]] in (b'"', b"'", b"`")
    if checks.is_random(value, length=20) and not checks.is_made_of_words(value):
        return span
    return span if is_assigned and checks.is_token(value) else None


def _spoken(text: bytes, span: Span) -> Span | None:
    """Accept a value in a sentence: what follows a password's name, or looks like a token, but no size, price or time."""
    found = _named_secret(text, span)
    if found is None or checks.is_token(value_of(text, found)):
        return found
    before = text[max(0, span[0] - 64) : span[0]].decode("utf-8", "replace")
    return found if _ends_in_password(before) and not _ends_in_measure(before) else None


def _named_key(text: bytes, span: Span) -> Span | None:
    """Accept a long random value after `service_key:`, unless it is the key of a record, a table or a cache."""
    value = value_of(text, span)
    is_long = checks.has_long_token(value) or (
        len(value) >= 40 and checks.is_random(value) and checks.has_long_token(value, length=8)
    )
    is_meant = is_long and "://" not in value and not checks.is_masked(value)
    return span if is_meant and not _ends_in_plain_key(text[max(0, span[0] - 64) : span[0]]) else None


def _element(text: bytes, span: Span) -> Span | None:
    """Accept text between tags: a human password, or anything with a token in it."""
    value = value_of(text, span)
    return span if checks.has_long_token(value) or checks.is_chosen_secret(value) else None


def _access_key(text: bytes, span: Span) -> Span | None:
    """Accept an id of letters only if it is quoted or assigned."""
    is_assigned = text[max(0, span[0] - 16) : span[0]].rstrip()[-1:] in (b"=", b":", b">", b'"', b"'", b"`")
    return span if is_assigned or not value_of(text, span).isalpha() else None


_is_name = re.compile(rf"(?i){NAMES}|user(?:name)?|auth|authkey|credentials?|token").fullmatch
_ends_in_password = re.compile(
    rf"(?i)(?:{_PASSWORDS}|pin|credentials|secret|{_KEYS})(?: [a-z]+){{0,2}}? (?:is|was|are|ist|lautet|est|es)[: ]+[\"'`\\]*\Z"
).search
_ends_in_measure = re.compile(
    r"(?i)(?:length|size|count|limit|rate|lifetime|expiry|expiration|duration|age|strength|policy|type|version|minimum|maximum|total)"
    r" (?:is|was|are|ist|lautet|est|es)[: ]+\S?\Z"
).search
_ends_in_plain_key = re.compile(
    rb"(?i)(?:cache|primary|foreign|sort|partition|row|idempotency|public|object|group|hash|dedup\w*|lookup|storage|s3|index|map|routing"
    rb"|message|record|item|entity|unique|natural|composite|registry|config|translation|i18n|sha\d*|fingerprint)[_-]?keys?[\\\"'`\s:=>]*\Z"
    rb"|(?:id|ids|hash|sha\d*|digest|checksum|fingerprint|name|path|file|url|uri|arn|version|type|count)[\\\"'`\s:=>]*\Z"
).search

# In order: rules for forms that are certain come first, and what they replace no later rule sees.
SECRETS: tuple[Rule, ...] = (
    Rule(
        "private_key",
        "PRIVATE KEY",
        # Five dashes begin the next line of such a block: text after them is not part of this key, however far its end is.
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:[^-]|-{1,4}[^-])*-{5,9}END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\s\\:,._-]*)",
    ),
    Rule(
        "url_credentials",
        r"://[^\s/\"'<>@]*@",
        r"[A-Za-z][A-Za-z0-9+.-]{1,20}://([^\s/:@\"'<>]*:[^\s/\"'<>]+|[A-Za-z0-9_-]{16,})@",
    ),
    Rule(
        "url_credentials",
        r"(?:-u|--user)[\s=\"'\\]",
        rf"\bcurl\b[^|;]*?\s(?:-u|--user)(?:=|\s)\s*(?:{QUOTE}([^\"'`\s]*:[^\"'`]*){QUOTE}|([^\s:\"'`]+:{QUOTE}?[^\s\"'`]+))",
        when(checks.is_login),
    ),
    Rule(
        "authorization",
        rf"(?i)authorization{QUOTE}?\s*[:=]|proxy-authorization",
        rf"(?i)authorization{QUOTE}?\s*[:=]\s*(?:{QUOTE})?(?:((?:{_SCHEMES})\s+[^\s\"'`,;<>\\]{{4,}})|([A-Za-z0-9._~@+/=-]{{16,}}))",
        when(lambda text: " " in text or checks.is_random(text)),
    ),
    Rule(
        "bearer",
        r"(?i)bearer(?:\s|\\[nrt]|%20|\+)",
        rf"(?i){EDGE}bearer(?:\s+|%20|\+)([A-Za-z0-9._~+/=-]{{12,}})",
        when(lambda text: not text.isalpha()),
    ),
    Rule(
        "basic_auth",
        r"(?i)basic [A-Za-z0-9+/]{12}",
        rf"(?i){EDGE}basic ([A-Za-z0-9+/]{{12,}}={{0,2}})",
        when(lambda text: checks.is_random(text, length=12)),
    ),
    Rule("cookie", rf"(?i)cookie{QUOTE}?\s*:", r"(?i)cookie:\s*([^\s;=\"']+=[^\s;\"']+(?:; *[^\s;=\"']+=[^\s;\"']+)*)"),
    Rule("jwt", "eyJ", r"(eyJ[A-Za-z0-9_-]{5,}[.][A-Za-z0-9_-]{5,}(?:[.][A-Za-z0-9_-]*)?)"),
    *TOKENS,
    Rule("openai_key", "sk-[A-Za-z0-9_-]{8}", rf"{EDGE}(sk-[A-Za-z0-9_-]{{16,}})", when(checks.has_random_part)),
    Rule(
        "aws_secret_key",
        "(?:AKIA|ASIA)[A-Z0-9]{8}",
        r"(?:AKIA|ASIA)[A-Z0-9]{16}[^A-Za-z0-9]{1,8}(?:[A-Za-z_ ]{0,30}[=:]\s*)?((?:[A-Za-z0-9+]|\\?/){40})",
        when(checks.is_random),
    ),
    Rule(
        "aws_access_key",
        "A(?:KIA|SIA|BIA|CCA|ROA|IDA|GPA|NPA|NVA|IPA|3T[A-Z0-9])[A-Z0-9]{8}",
        rf"{EDGE}(A(?:KIA|SIA|BIA|CCA|ROA|IDA|GPA|NPA|NVA|IPA|3T[A-Z0-9])[A-Z0-9]{{16}})\b",
        _access_key,
    ),
    Rule(
        "url_secret",
        _QUERY,
        _QUERY + r"([^&\s\"'<>#\\]{8,})",
        when(lambda text: checks.is_random(text) or checks.is_chosen_secret(text)),
    ),
    Rule(
        "assignment",
        rf"{_NAMED}\\*[\"'`]?\]?\s*(?:[:=?.!]|\\u003[da]|%3D)",
        rf"{_NAMED}{QUOTE}?\]?\s*(?:=>|[!:?.=]{{0,3}}==?@?|:|\\u003d|%3D)\s*\\*"
        r"(?:\"([^\"\n]{3,}?)\\*\"|'([^'\n]{3,}?)\\*'|`([^`\n]{3,}?)\\*`)",
        when(lambda text: not checks.is_placeholder(text)),
        is_secret=True,
    ),
    Rule(
        "assignment",
        rf"{_NAMED}\s*(?:=|:=|%3D|\\u003d)",
        rf"{_NAMED}\s*(?:=|:=|%3D|\\u003d)\s*([^\s\"'`,;<>(){{}}\[\]|&\\=]{{4,}})",
        _assigned_secret,
        is_secret=True,
    ),
    Rule(
        "assignment",
        rf"{_NAMED}\\*[\"'`]?\s*(?::|=>)",
        rf"{_NAMED}{QUOTE}?\s*(?::|=>)\s*([^\s\"'`,;<>(){{}}\[\]|\\]{{6,}})",
        _named_secret,
        is_secret=True,
    ),
    Rule(
        "assignment",
        rf"(?i)(?:{NAMES}|token)s?{QUOTE}?\s+value\s*[:=]",
        rf"(?i)(?:{NAMES}|token)s?{QUOTE}?\s+value\s*[:=]\s*(?:{QUOTE}([^\"'`\n]{{4,}}?){QUOTE}|([^\s\"'`<>]{{8,}}))",
        when(lambda text: not checks.is_placeholder(text)),
        is_secret=True,
    ),
    Rule(
        "spoken_secret",
        rf"{_SPOKEN}[^.\n]{{0,30}}?\s(?:is|was|are|ist|lautet|est|es)[: ]",
        rf"{_SPOKEN}(?: [a-z]+){{0,4}}? (?:is|was|are|ist|lautet|est|es)[: ]+{QUOTE}?([^\s\"'`,;<>\\]{{6,}})",
        _spoken,
        is_secret=True,
    ),
    Rule(
        "assignment",
        rf"{_NAMED_KEY}\\*[\"'`]?\s*(?::=|=>|[:=])\s*\\*[\"'`]?[A-Za-z0-9_/+=.|~:-]{{12}}",
        rf"{_NAMED_KEY}{QUOTE}?\s*(?::=|=>|[:=])\s*{QUOTE}?([A-Za-z0-9_/+=.|~:-]{{20,}})",
        _named_key,
    ),
    Rule(
        "assignment",
        rf"{_SPOKEN}[A-Za-z_-]+\\*[\"'`]?\s*(?::=|=>|[:=])\s*\\*[\"'`]?[A-Za-z0-9_/+=.|~:-]{{12}}",
        rf"{_SPOKEN}[A-Za-z_-]{{1,32}}{QUOTE}?\s*(?::=|=>|[:=])\s*{QUOTE}?([A-Za-z0-9_/+=.|~:-]{{16,}})",
        _named_key,
    ),
    Rule(
        "assignment",
        r"(?i)<[\w:.-]*(?:password|passwd|secret|token|credentials?|api-?key)>",
        r"(?i)<[\w:.-]*(?:password|passwd|secret|token|credentials?|api-?key)>\s*([^<>\n]{6,}?)\s*</",
        _element,
    ),
    Rule(
        "assignment",
        r"(?i)kind:\s*[\"']?secret\b",
        r"(?m)^[ \t]+[\w.-]+:[ \t]*(?:[|>][+-]?\s+)?[\"']?([A-Za-z0-9+/]{10,}={0,3})[\"']?[ \t\r]*$",
        when(lambda text: not text.isalpha() or not (text.islower() or text.istitle())),
        is_secret=True,
    ),
    Rule(
        "high_entropy",
        rf"(?:{_SPOKEN}(?: string)?{_SEPARATORS}+|(?i)key\s*=\s*)[A-Za-z0-9_/+=.~:%-]{{14}}",
        rf"(?:{_SPOKEN}(?: string)?{_SEPARATORS}{{1,16}}|(?i)key\s*=\s*)([A-Za-z0-9_/+=.~:%-]{{14,}})",
        _random,
        is_secret=True,
    ),
)
