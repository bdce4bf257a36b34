"""The forms of the pages, sent as a browser sends them: the operator's models on the validation page, and the session cookie."""

from pathlib import Path

import pytest

from assay.surfaces.server.keys import KeyStore
from tests.surfaces.server.serving import Answered, Serving, dataset

GOLDEN = Path(__file__).parents[3] / "examples" / "golden_v1" / "assistant.json"
BOUNDARY = "a-boundary"
MAPPED = """\
providers: [{name: house, kind: scripted}]
candidates: [{model: say-4, provider: house, temperature: 0.2}, {model: scripted/echo, name: the echo}]
judges: [{model: scripted/judge-5, max_tokens: 100}]
"""


def validated(serving: Serving, file: Path) -> Answered:
    """The report on a file that is sent with the form of the validation page."""
    part = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{file.name}"\r\n\r\n'
    body = part.encode() + file.read_bytes() + f"\r\n--{BOUNDARY}--\r\n".encode()
    origin = {"Origin": f"http://127.0.0.1:{serving.port}"}
    led = serving.ask("POST", "/validate", body, {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}", **origin})
    assert led.status == 303, led.body
    serving.wait_for(lambda: b"data-wait" not in serving.ask("GET", led.headers["location"]).body)
    return serving.ask("GET", led.headers["location"])


def test_validation_page_names_the_models_of_a_run_file_that_writes_them_as_mappings(tmp_path: Path) -> None:
    with Serving(tmp_path, run_file=MAPPED) as serving:
        shown = validated(serving, GOLDEN)
    assert shown.status == 200
    assert b'<option value="house/say-4">' in shown.body
    assert b'<option value="scripted/echo">' in shown.body
    assert b"scripted/judge-5" in shown.body


def test_a_run_file_with_several_candidates_asks_for_one_of_them(tmp_path: Path) -> None:
    with Serving(tmp_path, run_file=MAPPED) as serving:
        refused = serving.submit(dataset(1))
        assert refused.status == 400
        (problem,) = refused.json["error"]["details"]["errors"]
        assert problem == "the server has several candidates: house/say-4, the echo; name one with model"
        assert serving.left_over() == []
        assert serving.submit(dataset(1), "?model=house/say-4").status == 202


def test_validation_page_names_the_one_candidate_that_is_taken(tmp_path: Path) -> None:
    with Serving(tmp_path, run_file="candidates: [{model: scripted/say-4, name: ours}]\njudges: [scripted/judge-5]\n") as serving:
        assert b'placeholder="ours"' in validated(serving, GOLDEN).body


def test_validation_page_works_while_the_run_file_cannot_be_read_in_part(tmp_path: Path) -> None:
    with Serving(tmp_path, run_file="candidates: [scripted/echo]\n") as serving:
        broken = "candidates: [{name: without a model}, scripted/echo]\njudges: [7]\n"
        (tmp_path / "run.yaml").write_text(broken, encoding="utf-8")
        shown = validated(serving, GOLDEN)
    assert (shown.status, b"scripted/echo" in shown.body) == (200, True)


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> object:
    with Serving(tmp_path_factory.mktemp("locked"), settings="hosts: [assay.example]\n") as serving:
        serving.headers = {"Host": "assay.example"}
        yield serving, KeyStore(serving.runs_dir).add("reader", "read")


@pytest.mark.parametrize(
    ("headers", "is_secure"),
    [
        ({"Origin": "http://assay.example"}, False),
        ({"Origin": "https://assay.example"}, True),
        ({"Sec-Fetch-Site": "same-origin", "X-Forwarded-Proto": "https"}, True),
        ({"Sec-Fetch-Site": "same-origin", "X-Forwarded-Proto": "https, http"}, True),
        ({"Sec-Fetch-Site": "same-origin", "Forwarded": 'for=192.0.2.1;proto="HTTPS";host=assay.example'}, True),
        ({"Sec-Fetch-Site": "same-origin", "X-Forwarded-Proto": "http"}, False),
        ({"Origin": "https://assay.example", "X-Forwarded-Proto": "http"}, True),
    ],
)
def test_session_cookie_is_secure_wherever_the_browser_speaks_tls(
    locked: tuple[Serving, str], headers: dict[str, str], *, is_secure: bool
) -> None:
    serving, key = locked
    form = {"Content-Type": "application/x-www-form-urlencoded", **headers}
    signed_in = serving.ask("POST", "/sign-in", f"key={key}".encode(), form)
    signed_out = serving.ask("POST", "/sign-out", b"", form)
    assert [answer.status for answer in (signed_in, signed_out)] == [303, 303]
    cookies = [answer.headers["set-cookie"].split("; ") for answer in (signed_in, signed_out)]
    assert ["Secure" in cookie for cookie in cookies] == [is_secure, is_secure]
