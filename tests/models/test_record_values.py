"""Values of a record in the requests of an endpoint, and in the keys of its cached replies."""

from typing import Any

import msgspec

from assay.core.case import Attachment, Message
from assay.core.model_call import ModelRequest
from assay.models.requests import request_addressing
from tests.models.asking import ask_of, plan_of
from tests.models.test_http_endpoint import asked, case_of, endpoint, talk


def test_every_value_has_its_place() -> None:
    body = {
        "p": "{{prompt}}",
        "s": "{{system}}",
        "m": "{{messages}}",
        "team": "{{metadata.team}}",
        "who": "Team {{metadata.team.name}}, level {{metadata.level}}",
        "all": "{{metadata}}",
        "a": "{{attachments}}",
        "id": "{{record_id}}",
        "model": "{{model}}",
        "fixed": [1, None, True],
    }
    _, (request,) = talk([{"answer": "4"}], asked(Message("system", "Be short."), Message("user", "Hi")), body=body)
    assert request.body == {
        "p": "Hi",
        "s": "Be short.",
        "m": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"}],
        "team": {"name": "blue"},
        "who": "Team blue, level 3",
        "all": {"team": {"name": "blue"}, "level": 3},
        "a": [],
        "id": "r-1",
        "model": "stub",
        "fixed": [1, None, True],
    }


def test_attachments_are_sent_once() -> None:
    record = case_of(attachments=(Attachment("a.txt", kind="text", title="Letter"),))
    messages = (Message("user", "Hi\n\nAttachment: Letter\nDear all"),)
    ask = msgspec.structs.replace(asked(*messages), record=record, attachments={"a.txt": "Dear all"})
    _, (request,) = talk([{"answer": "4"}], ask, body={"q": "{{prompt}}", "files": "{{attachments}}"})
    assert request.body == {"q": "Hi", "files": [{"path": "a.txt", "title": "Letter", "kind": "text", "text": "Dear all"}]}
    assert talk([{"answer": "4"}], ask)[1][0].body == {"question": messages[0].content}


def test_replies_are_cached_by_all_that_is_sent_and_read() -> None:
    def address(ask: ModelRequest, **settings: Any) -> str:
        provider = endpoint("http://h/ask", **settings)
        return request_addressing(provider, plan_of(provider).candidate)(ask)

    other = msgspec.structs.replace(asked(), record=case_of(metadata={"level": 4}))
    uses = {"body": {"q": "{{prompt}}", "l": "{{metadata.level}}"}}
    assert address(asked()) == address(other)
    assert address(asked(), **uses) != address(other, **uses)
    variants = [{}, uses, {"answer": "$.x"}, {"steps": "$.x"}, {"method": "PUT"}, {"headers": {"A": "1"}}]
    assert len({address(asked(), **settings) for settings in variants}) == len(variants)
    assert address(ask_of()) == address(ask_of("What is 2 + 2?"))
