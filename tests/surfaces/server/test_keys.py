"""An API key sees the runs of its project and no others, on every address that there is."""

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from litestar import Litestar

from assay import api
from assay.core.errors import UsageProblem
from assay.core.judge_card import JudgeCard
from assay.surfaces.server.app import HANDLERS
from assay.surfaces.server.keys import KeyStore
from tests.surfaces.server.serving import Answered, Serving, dataset

NOBODY = "run_of_nobody"
GROUP = "night-of-law"
PARAMETERS = {
    "run_id": "",
    "name": "predictions.jsonl",
    "record_id": "q_0000",
    "index": "0",
    "draft_id": "",
    "card_id": "",
    "group": "",
}
"""What stands for each part of an address; those that are empty name something of a project."""
LISTS = ("/v1/runs", "/runs", "/compare", "/judges", "/live/runs")
"""Addresses that list runs."""
BY_QUERY = ("/v1/compare", "/compare", "/compare/flip")
"""Addresses that name runs in their query."""
NEUTRAL = {
    ("GET", "/"): "leads to the list",
    ("GET", "/static/{name:str}"): "files of the product",
    ("GET", "/openapi.json"): "the addresses",
    ("GET", "/docs"): "the addresses",
    ("GET", "/docs/style.css"): "a style",
    ("GET", "/healthz"): "whether the process answers",
    ("GET", "/readyz"): "whether there is room",
    ("GET", "/metrics"): "tested below",
    ("GET", "/v1/audit"): "needs an admin key",
    ("GET", "/validate"): "a form",
    ("POST", "/validate"): "makes an upload",
    ("POST", "/v1/validate"): "keeps nothing",
    ("POST", "/v1/runs"): "makes a run",
    ("POST", "/sign-in"): "takes a key",
    ("POST", "/sign-out"): "ends a session",
}
"""Addresses that show nothing of any run, and why not; a new address has to be named here, or is tested."""


FORM = {"Content-Type": "application/x-www-form-urlencoded"}
FILE = {"Content-Type": "multipart/form-data; boundary=b"}
LABELS = b'--b\r\nContent-Disposition: form-data; name="file"; filename="l.csv"\r\n\r\nrecord_id,passed\nq_0000,true\n\r\n--b--\r\n'
BODIES: tuple[tuple[bytes, dict[str, str]], ...] = (
    (b"passed=true", FORM),
    (b"passed=maybe&unknown=1", FORM),
    (b"model=scripted/say-4", FORM),
    (LABELS, FILE),
    (LABELS.replace(b"l.csv", b"l.exe"), FILE),
    (b"--b no form", FILE),
    (b"{}", {"Content-Type": "application/json"}),
)
QUERIES = ("", "?unknown=1", "?limit=0", "?verify=1", "?format=no", "?cursor=RUN", "?against=RUN", "?page=99")
HEADERS: tuple[dict[str, str], ...] = ({}, {"Range": "bytes=0-3", "Last-Event-ID": "completed-2"}, {"If-None-Match": "*"})
DIFFERENT = {"date", "content-length", "x-latency-ms", "x-request-id", "x-ratelimit-remaining", "x-ratelimit-reset"}
"""Headers of an answer that differ from request to request; the length has the length of the id in it."""


def routes() -> list[tuple[str, str]]:
    """Every method of every address, as the application has them."""
    found = set()
    for route in Litestar(route_handlers=list(HANDLERS), openapi_config=None).routes:
        for handler in getattr(route, "route_handlers", ()):
            found |= {(str(method), path) for path in handler.paths for method in handler.http_methods if method != "OPTIONS"}
    return sorted(found)


def parts(path: str) -> list[str]:
    return re.findall(r"\{(\w+):\w+\}", path)


OWNED = [route for route in routes() if {"run_id", "draft_id", "card_id", "group"} & set(parts(route[1]))]


def filled(path: str, **values: str) -> str:
    named = {**PARAMETERS, **values}
    return re.sub(r"\{(\w+):\w+\}", lambda found: named[found[1]], path)


class Projects:
    """A server with the keys of two projects, and what one of them has made."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        keys = KeyStore(serving.runs_dir)
        made = {
            "own": keys.add("own", "write", project="law"),
            "colleague": keys.add("colleague", "read", project="law"),
            "foreign": keys.add("foreign", "write", project="tax"),
            "foreign reader": keys.add("foreign-reader", "read", project="tax"),
            "default": keys.add("before", "write"),
            "admin": keys.add("operator", "admin"),
        }
        self.keys = {who: {"x-api-key": key} for who, key in made.items()}
        self.run_id = self.submitted("own", query=f"?group={GROUP}")
        self.foreign_id = self.submitted("foreign")
        self.draft_id = self.draft("own")
        card = msgspec.structs.replace(
            msgspec.convert(json.loads(CARD), JudgeCard), source=f"run {self.run_id}", judge="scripted/judge-of-law"
        )
        self.card_id = api.keep_card(card, serving.runs_dir)

    def ask(self, who: str, method: str, path: str, body: Any = None, **headers: str) -> Answered:
        origin = {"Origin": f"http://127.0.0.1:{self.serving.port}"} if method == "POST" else {}
        return self.serving.ask(method, path, body, {**self.keys[who], **origin, **headers})

    def submitted(self, who: str, records: int = 2, key: str = "", query: str = "") -> str:
        """The id of a run that has ended."""
        headers = {**self.keys[who], **({"Idempotency-Key": key} if key else {})}
        answer = self.serving.submit(dataset(records), query, headers=headers)
        assert answer.status == 202, answer.body
        run_id: str = answer.json["run_id"]
        self.serving.wait_for(lambda: self.ask(who, "GET", f"/v1/runs/{run_id}").json["completed_at"])
        return run_id

    def draft(self, who: str) -> str:
        text = json.dumps(dataset(2))
        body = f'--b\r\nContent-Disposition: form-data; name="file"; filename="d.json"\r\n\r\n{text}\r\n--b--\r\n'
        led = self.ask(who, "POST", "/validate", body.encode(), **{"Content-Type": "multipart/form-data; boundary=b"})
        assert led.status == 303, led.body
        return led.headers["location"].rpartition("/")[2]

    def own(self, path: str) -> str:
        return filled(path, run_id=self.run_id, draft_id=self.draft_id, card_id=self.card_id, group=GROUP)


CARD = """{"judge": "", "verdict": "pass", "probes": [], "source": "", "source_sha256": "0", "records": 2, "repeats": 1, "seed": 0,
"parameters": {}, "templates": {}, "created_at": "2026-01-01T00:00:00Z", "product_version": "1", "calls": 2,
"failed_calls": 0, "cost": 0.0, "unknown_costs": 0}"""


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Projects]:
    settings = "requests_per_minute: 100000\nmax_queue: 1000\n"
    with Serving(tmp_path_factory.mktemp("projects"), settings=settings) as serving:
        yield Projects(serving)


def told(answer: Answered, identifier: str) -> str:
    """An error without what differs from request to request."""
    return re.sub(r'"request_id":"[^"]*"', "", answer.body.decode()).replace(identifier, "ID")


def test_every_address_is_either_about_something_of_a_project_or_named_as_one_that_is_not() -> None:
    unnamed = [route for route in routes() if route not in OWNED and route not in NEUTRAL]
    assert sorted(path for _, path in unnamed) == sorted({*LISTS, *BY_QUERY})
    assert {part for _, path in routes() for part in parts(path)} <= PARAMETERS.keys()
    assert not set(NEUTRAL) - set(routes())


@pytest.mark.parametrize("who", ["foreign", "foreign reader", "default"])
@pytest.mark.parametrize(("method", "path"), OWNED)
def test_what_belongs_to_another_project_is_answered_as_if_it_did_not_exist(
    projects: Projects, method: str, path: str, who: str
) -> None:
    body = b"" if method == "POST" else None
    answer = projects.ask(who, method, projects.own(path), body)
    nowhere = projects.ask(who, method, filled(path, run_id=NOBODY, draft_id=NOBODY, card_id=NOBODY, group=NOBODY), body)
    if who == "foreign reader" and method == "POST":
        assert (answer.status, nowhere.status) == (403, 403)
        return
    assert (answer.status, nowhere.status) == (404, 404), (answer.body, nowhere.body)
    named = next(value for value in (projects.run_id, projects.draft_id, projects.card_id, GROUP) if value in projects.own(path))
    assert told(answer, named) == told(nowhere, NOBODY)


def alike(answer: Answered, *identifiers: str) -> tuple[int, str, dict[str, str]]:
    """Everything of an answer but what differs from request to request, and the id that was asked for."""
    text = re.sub(r'"request_id":"[^"]*"', "", answer.body.decode())
    headers = {name: value for name, value in answer.headers.items() if name not in DIFFERENT}
    for identifier in identifiers:
        text = text.replace(identifier, "ID")
        headers = {name: value.replace(identifier, "ID") for name, value in headers.items()}
    return answer.status, text, headers


def cookie_of(projects: Projects, who: str) -> dict[str, str]:
    """The session of a browser that signed in."""
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{projects.serving.port}"}
    signed_in = projects.serving.ask("POST", "/sign-in", f"key={projects.keys[who]['x-api-key']}".encode(), form)
    return {"Cookie": signed_in.headers["set-cookie"].partition(";")[0]}


@pytest.mark.parametrize("client", ["key", "browser"])
@pytest.mark.parametrize("path", sorted({path for _, path in OWNED}))
def test_no_body_parameter_header_or_method_tells_that_it_exists(projects: Projects, path: str, client: str) -> None:
    serving = projects.serving
    who = cookie_of(projects, "foreign") if client == "browser" else projects.keys["foreign"]
    origin = {"Origin": f"http://127.0.0.1:{serving.port}"}
    there, nowhere = projects.own(path), filled(path, run_id=NOBODY, draft_id=NOBODY, card_id=NOBODY, group=NOBODY)
    asked: list[tuple[str, str, bytes | None, dict[str, str]]] = [
        *(("GET", query, None, headers) for query in QUERIES for headers in HEADERS),
        *(("POST", "", body, headers) for body, headers in BODIES),
        *((method, "", None, {}) for method in ("PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")),
    ]
    identifiers = (projects.run_id, projects.draft_id, projects.card_id, GROUP, NOBODY)
    for method, query, body, headers in asked:
        sent = {**who, **(origin if method == "POST" else {}), **headers}
        first, second = (
            serving.ask(method, address + query.replace("RUN", run_id), body, sent)
            for address, run_id in ((there, projects.run_id), (nowhere, NOBODY))
        )
        assert alike(first, *identifiers) == alike(second, *identifiers), (method, query, body, headers)
        assert first.status >= 400 or method == "OPTIONS", (method, query, body, headers)


def parameters() -> list[str]:
    """Every parameter of any address that takes a text."""
    seen: set[str] = set()
    structs = list(msgspec.Struct.__subclasses__())
    while structs:
        struct = structs.pop()
        structs += struct.__subclasses__()
        if struct.__module__.startswith("assay.surfaces.") and struct.__name__.endswith(("Query", "Choice")):
            shapes = msgspec.inspect.type_info(struct).fields  # type: ignore[attr-defined]
            seen |= {field.name for field in shapes if "StrType" in repr(field.type)}
    return sorted(seen)


def test_every_parameter_that_names_a_run_is_among_those_that_are_tested() -> None:
    assert {"before", "after", "against", "cursor", "unfinished"} <= set(parameters())


@pytest.mark.parametrize(
    "path", sorted({path for method, path in routes() if method == "GET" and "/live/" not in path and path != "/v1/audit"})
)
def test_no_parameter_tells_of_a_run_of_another_project(projects: Projects, path: str) -> None:
    address = filled(path, run_id=projects.foreign_id, draft_id=NOBODY, card_id=NOBODY, group=NOBODY)
    for name in parameters():
        other = {"before": f"&after={projects.foreign_id}", "after": f"&before={projects.foreign_id}"}.get(name, "")
        first, second = (
            projects.ask("foreign", "GET", f"{address}?{name}={run_id}{other}") for run_id in (projects.run_id, NOBODY)
        )
        identifiers = (projects.run_id, NOBODY)
        assert alike(first, *identifiers) == alike(second, *identifiers), (name, first.body, second.body)


@pytest.mark.parametrize("who", ["own", "admin"])
@pytest.mark.parametrize(("method", "path"), OWNED)
def test_what_belongs_to_the_own_project_is_found(projects: Projects, method: str, path: str, who: str) -> None:
    if path.endswith("/labels.jsonl"):
        # There is such a file as soon as somebody has labelled an answer.
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        projects.ask("own", "POST", f"/runs/{projects.run_id}/records/0/labels", b"passed=true", **form)
    answer = projects.ask(who, method, projects.own(path), b"" if method == "POST" else None)
    is_of_one_key = "draft_id" in path and who == "admin"
    assert (answer.status == 404) is is_of_one_key, answer.body


def test_a_colleague_sees_the_runs_of_the_project_and_an_upload_stays_with_its_key(projects: Projects) -> None:
    assert projects.ask("colleague", "GET", f"/v1/runs/{projects.run_id}").json["project"] == "law"
    assert projects.ask("colleague", "GET", f"/validate/{projects.draft_id}").status == 404


@pytest.mark.parametrize("path", [path for path in LISTS if not path.startswith("/live")])
def test_lists_show_the_runs_of_the_own_project(projects: Projects, path: str) -> None:
    shown = {who: projects.ask(who, "GET", path).body.decode() for who in ("own", "foreign", "default", "admin")}
    # The page of judges names runs by what was judged in them.
    mine = "scripted/judge-of-law" if path == "/judges" else projects.run_id
    assert {who: mine in text for who, text in shown.items()} == {"own": True, "foreign": False, "default": False, "admin": True}


def test_a_stream_of_the_list_tells_of_no_run_of_another_project(projects: Projects) -> None:
    serving = projects.serving
    address = f"http://127.0.0.1:{serving.port}/live/runs?unfinished={projects.run_id},{projects.foreign_id}"
    with urllib.request.urlopen(urllib.request.Request(address, headers=projects.keys["foreign"]), timeout=60) as stream:
        read = b""
        while projects.foreign_id.encode() not in read:
            read += stream.readline()
        projects.submitted("own")
        projects.submitted("foreign")
        while b"1 new since" not in read:
            read += stream.readline()
    assert projects.run_id.encode() not in read


@pytest.mark.parametrize("path", BY_QUERY)
def test_a_comparison_with_a_run_of_another_project_is_not_found(projects: Projects, path: str) -> None:
    pairs = [(projects.run_id, projects.foreign_id), (projects.foreign_id, projects.run_id)]
    for before, after in pairs:
        assert projects.ask("foreign", "GET", f"{path}?before={before}&after={after}").status == 404
        # Of two runs without a flip there is no page of one.
        if path != "/compare/flip":
            assert projects.ask("admin", "GET", f"{path}?before={before}&after={after}").status == 200


@pytest.mark.parametrize("path", ["/v1/runs/{}/records", "/runs/{}/records", "/runs/{}/records/0"])
def test_flips_against_a_run_of_another_project_are_not_found(projects: Projects, path: str) -> None:
    address = f"{path.format(projects.foreign_id)}?against={projects.run_id}"
    assert projects.ask("foreign", "GET", address).status == 404
    assert projects.ask("admin", "GET", address).status == 200


def test_a_run_under_way_is_neither_seen_nor_cancelled_by_another_project(tmp_path: Path) -> None:
    slow = "candidates: [scripted/say-4]\njudges: [scripted/judge-5]\nrun: {generation: {requests_per_minute: 60}}\n"
    with Serving(tmp_path, run_file=slow) as serving:
        keys = KeyStore(serving.runs_dir)
        own, foreign = ({"x-api-key": keys.add(name, "write", project=name)} for name in ("law", "tax"))
        run_id = serving.submit(dataset(500), headers=own).json["run_id"]
        asked = [("GET", ""), ("GET", "/records"), ("GET", "/events"), ("GET", "/export"), ("POST", "/cancel"), ("POST", "/resume")]
        for method, part in asked:
            body = b"" if method == "POST" else None
            assert serving.ask(method, f"/v1/runs/{run_id}{part}", body, foreign).status == 404
        assert serving.ask("GET", "/v1/runs", headers=foreign).json["runs"] == []
        assert serving.ask("GET", f"/v1/runs/{run_id}", headers=own).json["completed_at"] is None
        # Sent away and back, its ledger still says whose it is.
        serving.kill()
        serving.start()
        assert serving.ask("POST", f"/v1/runs/{run_id}/cancel", b"", foreign).status == 404
        assert serving.ask("POST", f"/v1/runs/{run_id}/cancel", b"", own).status == 200


def test_the_same_idempotency_key_makes_a_run_in_each_project(projects: Projects) -> None:
    found = {who: projects.submitted(who, key="nightly") for who in ("own", "foreign", "default")}
    assert len(set(found.values())) == 3
    assert projects.submitted("own", key="nightly") == found["own"]


def test_a_key_that_is_made_again_in_another_project_has_nothing_of_the_old_one(projects: Projects) -> None:
    keys = KeyStore(projects.serving.runs_dir)
    projects.keys["moved"] = {"x-api-key": keys.add("moved", "write", project="law")}
    before, draft = projects.submitted("moved", key="once"), projects.draft("moved")
    keys.revoke("moved")
    projects.keys["moved"] = {"x-api-key": keys.add("moved", "write", project="tax")}
    assert projects.submitted("moved", key="once") != before
    assert projects.ask("moved", "GET", f"/v1/runs/{before}").status == 404
    assert projects.ask("moved", "GET", f"/validate/{draft}").status == 404
    assert projects.ask("moved", "POST", f"/validate/{draft}/run", b"").status == 404


def test_a_browser_that_signed_in_with_a_key_sees_the_runs_of_its_project(projects: Projects) -> None:
    serving, cookie = projects.serving, cookie_of(projects, "foreign")
    assert serving.ask("GET", f"/runs/{projects.run_id}", headers=cookie).status == 404
    assert serving.ask("GET", f"/runs/{projects.foreign_id}", headers=cookie).status == 200
    assert projects.run_id.encode() not in serving.ask("GET", "/runs", headers=cookie).body


def test_figures_for_prometheus_name_no_run_and_are_for_an_admin_where_there_are_several_projects(projects: Projects) -> None:
    figures = {who: projects.ask(who, "GET", "/metrics") for who in ("admin", "default", "foreign", "own")}
    assert {who: answer.status for who, answer in figures.items()} == {"admin": 200, "default": 403, "foreign": 403, "own": 403}
    assert not any(run_id.encode() in figures["admin"].body for run_id in (projects.run_id, projects.foreign_id))


def test_figures_for_prometheus_are_for_every_key_while_there_is_one_project(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving:
        keys = KeyStore(serving.runs_dir)
        only = {"x-api-key": keys.add("only", "write", project="law")}
        assert serving.ask("GET", "/metrics", headers=only).status == 200
        other = {"x-api-key": keys.add("other", "write", project="tax")}
        assert [serving.ask("GET", "/metrics", headers=key).status for key in (only, other)] == [403, 403]
        run_id = serving.submit(dataset(1), headers=other).json["run_id"]
        serving.wait_for(lambda: serving.ask("GET", f"/v1/runs/{run_id}", headers=other).json["completed_at"])
        # The runs of a project are there when its last key is gone.
        keys.revoke("other")
        assert serving.ask("GET", "/metrics", headers=only).status == 403


def test_keys_of_an_earlier_version_belong_to_the_default_project(tmp_path: Path) -> None:
    """Their file names no project."""
    with Serving(tmp_path) as serving:
        keys = KeyStore(serving.runs_dir)
        old, law = ({"x-api-key": keys.add(name, "write", project=name)} for name in ("default", "law"))
        path = serving.runs_dir / ".server" / "keys.json"
        entries = json.loads(path.read_bytes())
        assert entries[0].pop("project") == "default"
        path.write_text(json.dumps(entries), encoding="utf-8")
        run_id = serving.submit(dataset(1), headers=old).json["run_id"]
        assert serving.ask("GET", f"/v1/runs/{run_id}", headers=old).json["project"] == "default"
        assert serving.ask("GET", f"/v1/runs/{run_id}", headers=law).status == 404


def test_a_run_that_was_started_by_hand_belongs_to_the_default_project(projects: Projects, tmp_path: Path) -> None:
    path = tmp_path / "batch.json"
    path.write_text(json.dumps(dataset(1)), encoding="utf-8")
    runs_dir = str(projects.serving.runs_dir)
    (result,) = api.run(
        api.RunRequest(datasets=(str(path),), models=("scripted/echo",), judges=("scripted/judge-5",), runs_dir=runs_dir)
    )
    statuses = {who: projects.ask(who, "GET", f"/v1/runs/{result.run_id}").status for who in ("default", "own", "admin")}
    assert statuses == {"default": 200, "own": 404, "admin": 200}


def test_a_run_of_an_earlier_version_belongs_to_the_default_project(projects: Projects) -> None:
    """Its manifest names no project; a copy of a run is given the manifest that an earlier version would have written."""
    runs_dir = projects.serving.runs_dir
    old = runs_dir / "run_of_an_earlier_version"
    old.mkdir()
    for file in (runs_dir / projects.run_id).iterdir():
        (old / file.name).write_bytes(file.read_bytes())
    manifest = json.loads((old / "run_manifest.json").read_bytes())
    assert manifest["plan"].pop("project") == "law"
    (old / "run_manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    statuses = {who: projects.ask(who, "GET", f"/v1/runs/{old.name}").status for who in ("default", "own", "admin")}
    assert statuses == {"default": 200, "own": 404, "admin": 200}


def test_a_run_that_cannot_be_read_is_shown_to_an_admin_alone(projects: Projects) -> None:
    damaged = projects.serving.runs_dir / "run_with_a_torn_manifest"
    damaged.mkdir()
    (damaged / "run_manifest.json").write_bytes(b'{"plan": {')
    statuses = {who: projects.ask(who, "GET", f"/v1/runs/{damaged.name}").status for who in ("default", "own", "admin")}
    assert statuses == {"default": 404, "own": 404, "admin": 500}
    listed = {who: damaged.name.encode() in projects.ask(who, "GET", "/v1/runs").body for who in ("default", "admin")}
    assert listed == {"default": False, "admin": True}


@pytest.mark.parametrize("content", [b"", b"junk" * 4000], ids=["empty", "junk"])
def test_a_run_whose_ledger_cannot_be_read_exists_for_an_admin_alone(projects: Projects, content: bytes) -> None:
    damaged = projects.serving.runs_dir / ".active" / f"run_with_{len(content)}_bytes"
    damaged.mkdir(parents=True)
    (damaged / "ledger.sqlite").write_bytes(content)
    asked = (("GET", "/v1/runs/{}"), ("GET", "/runs/{}"), ("GET", "/v1/runs/{}/events"), ("POST", "/v1/runs/{}/cancel"))
    for method, path in asked:
        statuses = [projects.ask(who, method, path.format(damaged.name)).status for who in ("default", "own", "admin")]
        assert statuses == [404, 404, 503], path


def test_the_runs_of_two_projects_are_not_ranked_together(projects: Projects) -> None:
    request = api.RankRequest(
        runs=(projects.run_id, projects.foreign_id), judges=("scripted/judge-5",), runs_dir=str(projects.serving.runs_dir)
    )
    with pytest.raises(UsageProblem, match="different projects: law, tax"):
        api.plan_rank(request)


def test_a_client_reads_the_project_of_a_run(projects: Projects) -> None:
    address = f"http://127.0.0.1:{projects.serving.port}"
    client = api.Client(address, key=projects.keys["own"]["x-api-key"])
    assert client.run(projects.run_id).project == "law"
    assert {listing.project for listing in client.runs()} == {"law"}


def test_without_a_key_everything_is_seen(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving:
        answer = serving.submit(dataset(1))
        assert serving.ended(answer.json["run_id"])["project"] == "default"
        assert [run["project"] for run in serving.runs()] == ["default"]
