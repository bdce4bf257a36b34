"""How every kind of broken reply is classed, on real sockets."""

import os
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from assay.core.model_call import ModelFailure
from assay.models.transport import KeyScrubber
from tests.models.asking import KEY, ask_of, class_of, plan_of, provider_of, replies_to, reply_to
from tests.models.faulty_provider import (
    Play,
    chunked,
    completion,
    drip,
    endless,
    faulty_provider,
    gzipped,
    http,
    send,
    send_and_close,
    send_and_hang,
    send_and_reset,
    send_late,
)

TIMEOUT = 1.0
AWKWARD_KEY = "sk-abc+def/ghi==0123456789"
OK = http(completion())
FAULTS: dict[str, tuple[Play, str]] = {
    "plain": (send(OK), "ok"),
    "one byte at a time": (drip(OK, 0.0005), "ok"),
    "chunked": (send(chunked(completion())), "ok"),
    "gzip": (send(gzipped(completion())), "ok"),
    "text/plain": (send(OK.replace(b"application/json", b"text/plain")), "ok"),
    "byte order mark": (send(http(b"\xef\xbb\xbf" + completion())), "ok"),
    "usage is nonsense": (send(http(completion().replace(b'{"prompt_tokens": 5}', b'"many"'))), "ok"),
    "1,000 interim replies": (send(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, OK), "ok"),
    "ten megabytes": (send(http(completion("x" * 10_000_000))), "ok"),
    "an empty answer": (send(http(completion(""))), "ok"),
    "no answer": (send_and_hang(b""), "timeout"),
    "half an answer": (send_and_hang(OK[:-20]), "timeout"),
    "headers without end": (drip(b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 100, 0.02), "timeout"),
    "a body without end, slowly": (drip(OK, 0.02), "timeout"),
    "408": (send(http(b"{}", status=408)), "timeout"),
    "closed without a word": (send_and_close(b""), "service_unavailable"),
    "reset": (send_and_reset(b""), "service_unavailable"),
    "reset in the body": (send_and_reset(OK[:-20]), "service_unavailable"),
    "length too long": (send_and_close(http(completion(), length=5000)), "service_unavailable"),
    "huge header": (send(http(completion(), headers=f"X-Big: {'a' * 1_000_000}\r\n")), "service_unavailable"),
    "503": (send(http(b"{}", status=503)), "service_unavailable"),
    "529": (send(http(b"{}", status=529)), "service_unavailable"),
    "425": (send(http(b"{}", status=425)), "service_unavailable"),
    "429": (send(http(b"{}", status=429)), "rate_limited"),
    "length too short": (send(http(completion(), length=len(completion()) - 20)), "internal_error"),
    "not HTTP": (send(b"220 mail.example ESMTP\r\n\r\n"), "internal_error"),
    "500 in HTML": (send(http(b"<html>oops</html>", status=500)), "internal_error"),
    "cut JSON": (send(http(completion()[:-20])), "internal_error"),
    "NaN": (send(http(completion().replace(b"5", b"NaN"))), "internal_error"),
    "deep JSON": (send(http(b"[" * 100_000)), "internal_error"),
    "not UTF-8": (send(http(completion().replace(b'"4"', b'"\xff"'))), "internal_error"),
    "empty body": (send(http(b"")), "internal_error"),
    "HTML": (send(http(b"<html>login</html>")), "internal_error"),
    "another shape": (send(http(b'{"choices": "none"}')), "internal_error"),
    "no choices at all": (send(http(b"{}")), "internal_error"),
    "broken gzip": (send(gzipped(completion()).replace(b"\x1f\x8b", b"\x1f\x8c")), "internal_error"),
    "unknown encoding": (send(http(completion(), headers="Content-Encoding: br\r\n")), "internal_error"),
    "an error with 200": (send(http(b'{"error": {"type": "server_error", "message": "oops"}}')), "internal_error"),
    "a refusal with 200": (send(http(b'{"error": {"code": "model_not_found", "message": "no"}}')), "permanent"),
    "a gateway's 429 with 200": (send(http(b'{"error": {"code": 429, "message": "slow down"}}')), "rate_limited"),
    "choices []": (send(http(b'{"choices": []}')), "permanent"),
    "content null": (send(http(completion().replace(b'"4"', b"null"))), "permanent"),
    "filtered": (send(http(completion("", "content_filter"))), "permanent"),
    "endless": (endless, "permanent"),
    "gzip bomb": (send(gzipped(bytes(200_000_000))), "permanent"),
    "400": (send(http(b"{}", status=400)), "permanent"),
    "401": (send(http(b"{}", status=401)), "permanent"),
    "418": (send(http(b"{}", status=418)), "permanent"),
    "redirect": (send(http(b"{}", status=302, headers="Location: http://127.0.0.2:1/steal\r\n")), "permanent"),
}
ARSENAL = Path(os.environ.get("ASSAY_ARSENAL", ""))
HAS_ARSENAL = bool(os.environ.get("ASSAY_ARSENAL")) and (ARSENAL / "stub_provider.py").is_file()
ARSENAL_FAULTS: list[dict[str, Any]] = (
    msgspec.json.decode((ARSENAL / "provider_faults.json").read_bytes())["items"] if HAS_ARSENAL else []
)
ARSENAL_TIMEOUT = 3.0


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_classed_by_what_can_be_done_about_it(fault: str) -> None:
    play, expected = FAULTS[fault]
    timeout = TIMEOUT if expected == "timeout" else 30.0
    with faulty_provider(play) as url:
        assert class_of(plan_of(provider_of("openai", url, timeout=timeout))) == expected


def test_a_closed_port_is_a_service_that_is_unavailable() -> None:
    with faulty_provider(send(OK)) as url:
        pass
    plan = plan_of(provider_of("openai", url))
    assert class_of(plan) == "service_unavailable"
    with pytest.raises(ModelFailure, match=r"cannot be reached at 127\.0\.0\.1: Connection refused"):
        reply_to(plan)


@pytest.mark.parametrize("awkward", [rb'"a\ud800b"', rb'"a\u0000b"'])
def test_characters_that_no_text_may_hold_are_replaced_and_flagged(awkward: bytes) -> None:
    with faulty_provider(send(http(completion().replace(b'"4"', awkward)))) as url:
        reply = reply_to(plan_of(provider_of("openai", url)))
    assert (reply.text, reply.flags) == ("a\ufffdb", ("replaced_characters",))


def test_a_second_answer_that_nobody_asked_for_answers_no_other_request() -> None:
    sent = threading.Event()
    with faulty_provider(send_late(OK, http(completion("stale")), 0.1, sent=sent), drip(http(completion("fresh")), 0.002)) as url:
        plan = plan_of(provider_of("openai", url))
        replies = replies_to(plan, ask_of(), times=3, awaited=sent)
    assert [reply.text for reply in replies] == ["4", "fresh", "fresh"]


def test_an_answer_that_comes_after_the_deadline_answers_no_other_request() -> None:
    late = send_late(b"", http(completion("late")), TIMEOUT + 0.2)
    with faulty_provider(late, send(http(completion("in time")))) as url:
        plan = plan_of(provider_of("openai", url, timeout=TIMEOUT))
        assert class_of(plan, attempts=2) == "ok"
        assert reply_to(plan).text == "in time"


def test_a_provider_that_repeats_the_key_gets_it_into_no_message() -> None:
    body = f'{{"error": {{"message": "bad key {KEY} in Bearer {KEY}"}}}}'.encode()
    with faulty_provider(send(http(body, status=401, headers=f"x-request-id: {KEY}\r\n"))) as url:
        plan = plan_of(provider_of("openai", url, key_variable="TEST_KEY"))
        with pytest.raises(ModelFailure) as caught:
            reply_to(plan)
    assert KEY not in f"{caught.value} {caught.value.message} {caught.value.request_id}"
    assert "bad key [key] in Bearer [key]" in caught.value.message


def test_an_answer_is_graded_as_it_came_even_with_the_key_in_it() -> None:
    with faulty_provider(send(http(completion(f"your key is {KEY}")))) as url:
        reply = reply_to(plan_of(provider_of("openai", url, key_variable="TEST_KEY"), keep_raw=True))
    assert reply.text == f"your key is {KEY}"
    assert KEY in reply.raw


@pytest.mark.parametrize("key", ["x", "id", "none", "EMPTY", "choices"])
def test_a_key_that_is_an_ordinary_word_changes_no_answer(key: str) -> None:
    text = 'the index is EMPTY, none of the choices has an id: {"x": 1}'
    with faulty_provider(send(http(completion(text)))) as url:
        reply = reply_to(plan_of(provider_of("openai", url, key_variable="TEST_KEY")), environ={"TEST_KEY": key})
    assert reply.text == text


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("x", "exact x of EMPTYING id"),
        ("of", "exact x of EMPTYING id"),
        ("EMPTY", "exact x of EMPTYING id"),
        ("exact", "exact x of EMPTYING id"),
        ("none", "API key: [key] "),
    ],
)
def test_a_key_that_is_a_word_leaves_a_message_only_where_it_is_used_as_a_key(key: str, shown: str) -> None:
    with faulty_provider(
        send(http(b'{"error": {"message": "exact x of EMPTYING id, API key: none is wrong"}}', status=400))
    ) as url:
        plan = plan_of(provider_of("openai", url, key_variable="TEST_KEY"))
        with pytest.raises(ModelFailure) as caught:
            reply_to(plan, environ={"TEST_KEY": key})
    assert shown in caught.value.message


@pytest.mark.parametrize("status", [200, 500])
def test_a_message_that_is_cut_within_the_key_holds_no_part_of_it(status: int) -> None:
    body = msgspec.json.encode({"error": {"message": f"{'wrong ' * 70}{'-' * 30} {KEY} {'wrong ' * 70}"}})
    with faulty_provider(send(http(body, status=status))) as url, pytest.raises(ModelFailure) as caught:
        reply_to(plan_of(provider_of("openai", url, key_variable="TEST_KEY")))
    assert "[key" in caught.value.message
    assert KEY[:8] not in caught.value.message


@pytest.mark.parametrize(
    "refusal",
    [
        http(b"oops" + b" " * 3976 + KEY.encode(), status=401),
        http(msgspec.json.encode({"a" * 460 + KEY: 1}), status=401),
        http(b"x", headers=f"Content-Encoding: {'x' * 20}{KEY}\r\n"),
        http(b'{"a": ' + KEY.encode() * 3 + b"}"),
        http(b"{}", status=401, headers=f"x-request-id: {'x' * 190}{KEY}\r\n"),
    ],
    ids=["a text", "a name", "an encoding", "no JSON", "the name of the request"],
)
def test_nothing_is_cut_through_a_key(refusal: bytes) -> None:
    with faulty_provider(send(refusal)) as url, pytest.raises(ModelFailure) as caught:
        reply_to(plan_of(provider_of("openai", url, key_variable="TEST_KEY")))
    assert KEY[:6] not in f"{caught.value} {caught.value.request_id}"


@pytest.mark.parametrize(
    "shown", [quote(AWKWARD_KEY, safe=""), b64encode(AWKWARD_KEY.encode()).decode(), AWKWARD_KEY.replace("/", "\\/")]
)
def test_a_key_is_found_in_the_forms_that_providers_write(shown: str) -> None:
    with faulty_provider(send(http(f"bad key: {shown}".encode(), status=401))) as url, pytest.raises(ModelFailure) as caught:
        reply_to(plan_of(provider_of("openai", url, key_variable="TEST_KEY")), environ={"TEST_KEY": AWKWARD_KEY})
    assert "bad key: [key]" in caught.value.message


@pytest.mark.parametrize("before", range(10, 45, 5))
def test_the_beginning_of_a_text_ends_before_half_a_key(before: int) -> None:
    scrubber = KeyScrubber([KEY])
    assert scrubber.beginning("-" * before + KEY, 40) == ("-" * before + "[key]")[:40]
    assert KEY[:1] not in scrubber.beginning(KEY * 3 + "-" * before + KEY * 3, 40).replace("[key]", "")


def test_a_request_is_named_in_few_characters_that_no_terminal_obeys() -> None:
    with faulty_provider(send(http(completion().replace(b'"x"', b'"\\u001b[2J' + b"a" * 1000 + b'"')))) as url:
        name = reply_to(plan_of(provider_of("openai", url))).request_id
    assert name.startswith("[2Ja")
    assert len(name) == 200


def test_a_message_holds_no_character_that_a_terminal_obeys() -> None:
    body = b'{"error": {"message": "a\\u001b[2Jb\\u009bc\\u202ed"}}'
    with faulty_provider(send(http(body, status=400))) as url, pytest.raises(ModelFailure) as caught:
        reply_to(plan_of(provider_of("openai", url)))
    assert caught.value.message.endswith(": a[2Jbcd")


def test_an_answer_that_is_announced_as_too_large_is_not_waited_for() -> None:
    with faulty_provider(send_and_hang(http(b"", length=1 << 40))) as url, pytest.raises(ModelFailure) as caught:
        reply_to(plan_of(provider_of("openai", url)))
    assert caught.value.code == "reply_too_large"


def test_long_explanations_are_shortened() -> None:
    with faulty_provider(send(http(b"x" * 100_000, status=500))) as url, pytest.raises(ModelFailure) as caught:
        reply_to(plan_of(provider_of("openai", url)))
    assert len(caught.value.message) == 500


@pytest.fixture(scope="module")
def arsenal_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("arsenal") / "calls.jsonl"
    command = [sys.executable, "-W", "ignore", str(ARSENAL / "stub_provider.py"), "--log", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"CLIENT_TIMEOUT_S": str(ARSENAL_TIMEOUT)}) as stub:
        assert stub.stdout is not None
        yield f"http://127.0.0.1:{int(stub.stdout.readline())}/v1"
        stub.kill()


@pytest.mark.skipif(not HAS_ARSENAL, reason="ASSAY_ARSENAL does not name a folder of provider faults")
@pytest.mark.parametrize("fault", ARSENAL_FAULTS, ids=lambda fault: fault["id"])
def test_a_fault_of_the_arsenal_is_classed_as_listed(fault: dict[str, Any], arsenal_url: str) -> None:
    timeout = ARSENAL_TIMEOUT if fault["expected"]["class"] == "timeout" else 60.0
    plan = plan_of(provider_of("openai", arsenal_url, timeout=timeout))
    asked = ask_of(f"[[fault:{fault['id']}]][[key:{fault['id']}]]")
    assert class_of(plan, asked, attempts=fault["expected"].get("attempts", 1)) == fault["expected"]["class"]
