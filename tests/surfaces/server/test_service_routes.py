"""The service about itself."""

import pytest

from tests.surfaces.server.serving import Serving


@pytest.mark.parametrize("path", ["/docs", "/docs/style.css", "/metrics", "/static/style.css", "/runs"])
def test_charset_is_told_once(service: Serving, path: str) -> None:
    assert service.ask("GET", path).headers["content-type"].count("charset=utf-8") == 1


def test_metrics_openapi_and_page_are_there(service: Serving) -> None:
    assert b"assay_http_requests_total{" in service.ask("GET", "/metrics").body
    assert "/v1/runs/{run_id}/records/{record_id}" in service.ask("GET", "/openapi.json").json["paths"]
    page = service.ask("GET", "/docs")
    assert b"<script" not in page.body
    assert "script-src 'self'" in page.headers["content-security-policy"]
