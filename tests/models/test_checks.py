"""What can be known about models before the first call."""

import asyncio

import pytest

from assay.core.errors import UsageProblem
from assay.core.plan import ModelPlan
from assay.models import check_models, open_models
from tests.models.asking import plan_of, provider_of

JUDGE = ModelPlan(name="j", provider="p", model="judge-5")


def test_a_server_of_ones_own_needs_no_key_unless_the_plan_names_one() -> None:
    assert check_models(plan_of(provider_of("openai", "http://localhost:8000/v1")), environ={}) == []
    named = plan_of(provider_of("openai", "http://localhost:8000/v1", key_variable="TEAM_KEY"))
    assert check_models(named, environ={}) == ["the environment variable TEAM_KEY with the key of provider 'p' is not set"]


def test_a_key_that_cannot_be_sent_is_not_shown() -> None:
    problems = check_models(plan_of(provider_of("openai")), environ={"OPENAI_API_KEY": "sk-ключ"})
    assert problems == ["the environment variable OPENAI_API_KEY holds characters that no key has"]


@pytest.mark.parametrize("url", ["ftp://host/v1", "localhost:8000", "http://", "http://[::1", "http://host:99999/v1"])
def test_an_address_that_is_none_is_a_problem(url: str) -> None:
    assert len(check_models(plan_of(provider_of("openai", url)), environ={})) == 1


def test_a_password_in_the_address_is_a_problem_and_not_shown() -> None:
    problems = check_models(plan_of(provider_of("openai", "https://me:hunter2@host/v1")), environ={})
    assert problems == ["the base_url of provider 'p' holds a user name or password; name a key variable instead"]


@pytest.mark.parametrize("header", [{"x-a": "line\nbreak"}, {"bad name": "x"}, {"x-key": "$UNSET"}, {"Content-Length": "5"}])
def test_a_header_that_cannot_be_sent_is_a_problem(header: dict[str, str]) -> None:
    plan = plan_of(provider_of("openai", "http://localhost:8000/v1", headers=header))
    assert len(check_models(plan, environ={})) == 1


def test_only_providers_that_the_plan_calls_are_checked() -> None:
    plan = plan_of(provider_of("openai"), response_source="prefilled", responses_path="x")
    assert check_models(plan, environ={}) == []


def test_every_problem_is_told_once() -> None:
    judges = (ModelPlan(name="j", provider="p", model="x"), ModelPlan(name="k", provider="q", model="x"))
    assert check_models(plan_of(provider_of("openai"), judges=judges), environ={}) == [
        "the environment variable OPENAI_API_KEY with the key of provider 'p' is not set",
        "the model 'k' names the provider 'q', which the plan does not have",
    ]


def test_all_models_of_a_plan_are_opened_by_name() -> None:
    async def names() -> set[str]:
        async with open_models(plan_of(provider_of("scripted"), "echo", judges=(JUDGE,)), environ={}) as models:
            return set(models)

    assert asyncio.run(names()) == {"m", "j"}


def test_a_candidate_whose_answers_are_given_is_not_opened() -> None:
    async def names() -> set[str]:
        plan = plan_of(provider_of("scripted"), "no such script", judges=(JUDGE,), response_source="prefilled")
        async with open_models(plan, environ={}) as models:
            return set(models)

    assert asyncio.run(names()) == {"j"}


def test_a_model_without_its_provider_cannot_be_opened() -> None:
    async def open_them() -> None:
        async with open_models(
            plan_of(provider_of("scripted"), "echo", judges=(ModelPlan(name="j", provider="q", model="x"),)), environ={}
        ):
            pass

    with pytest.raises(UsageProblem, match="provider 'q'"):
        asyncio.run(open_them())


def test_a_vendor_without_its_key_cannot_be_opened() -> None:
    async def open_them() -> None:
        async with open_models(plan_of(provider_of("openai")), environ={}):
            pass

    with pytest.raises(UsageProblem, match="OPENAI_API_KEY"):
        asyncio.run(open_them())
