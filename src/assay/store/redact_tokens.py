"""Tokens recognised by their form: each provider's prefix and alphabet, as its documentation states them."""

from assay.store import redact_checks as checks
from assay.store.redact_patterns import EDGE, QUOTE, Rule, when

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

_NAMED: tuple[tuple[str, str, str], ...] = (
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

TOKENS: tuple[Rule, ...] = (
    *(Rule(name, trigger, EDGE + pattern, when(lambda text: not checks.is_masked(text))) for name, trigger, pattern in _NAMED),
    Rule("webhook", "hooks[.](?:slack|zapier)[.]com|webhook[.]office[.]com|[.]com/api/webhooks/", _WEBHOOKS),
    Rule(
        "vendor_token",
        "|".join((_PREFIXED, *(trigger for trigger, _ in _OTHERS))),
        rf"{EDGE}((?:[A-Za-z0-9]{{14}}[.]atlasv1[.]|{_PREFIXED}){_TAIL}|{_PARTS})",
        when(lambda text: checks.has_random_part(text) and not checks.is_masked(text)),
    ),
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
