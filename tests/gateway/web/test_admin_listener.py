"""The administration on a listener of its own, and the page that describes it."""

import asyncio
import json
import re
import shutil
import socket
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from gateway.client import Administration, GatewayError
from gateway.egress import AddressRefused, parse_target
from gateway.settings.settings import Settings, SettingsError, read_settings
from gateway.web.pages import HEADERS
from gateway.web.refusals import problem
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import running
from tests.rigs.programs import Program, run

SPEAKER = Speaker()
OF_OPERATORS = (
    "/api/v1/subscriptions", "/api/v1/deadletters", "/api/v1/nothing", "/docs", "/docs/start.js",
    "/openapi.json", "/metrics", "/console", "/console/x",
)  # fmt: skip
OF_PEERS = ("/soap", "/soap?wsdl", "/soap/topic/a", "/subscriptions/x", "/mailboxes", "/MsgBox")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


async def test_strangers_have_no_administration(tmp_path: Path) -> None:
    """What listens beyond loopback serves peers alone; the other listener, operators alone."""
    async with running(tmp_path, host="0.0.0.0") as run_:
        await run_.subscribe(SPEAKER, SPEAKER.wse_subscribe("http://consumer.example.org/"))
        for path in OF_OPERATORS:
            for method in ("GET", "POST", "DELETE"):
                answer = await run_.request(method, path, b"{}" if method == "POST" else b"")
                assert answer.status == 404, (method, path)
                assert json.loads(answer.body) == problem(
                    404,
                    "Administration is on a listener of its own; see admin_host and admin_port.",
                    "administration-elsewhere",
                )
        for path in OF_PEERS:
            answer = await run_.admin("POST", path)
            assert answer.status == 404
            assert b"another listener; see host and port" in answer.body
        for path in ("/healthz", "/readyz"):
            assert (await run_.request("GET", path)).status == 200
            assert (await run_.admin("GET", path)).status == 200
        [one] = json.loads((await run_.api("GET", "/subscriptions")).body)["subscriptions"]
        assert (await run_.admin("GET", "/metrics")).body.count(b"dragoman_") > 10
        described = json.loads((await run_.admin("GET", "/openapi.json")).body)["paths"]
        assert {"/soap", "/mailboxes/{key}/receive", "/api/v1/subscriptions"} <= described.keys()
        assert (await run_.request("GET", "/")).headers["location"] == "/soap?wsdl"
        assert (await run_.admin("GET", "/")).headers["location"] == "/docs"
        assert (await run_.api("DELETE", f"/subscriptions/{one['id']}")).status == 204


async def test_mailboxes_only(tmp_path: Path) -> None:
    async with running(tmp_path, host="0.0.0.0", mailboxes_only=True) as run_:
        assert (await run_.request("GET", "/api/v1/mailboxes")).status == 404
        made = await run_.request("POST", "/mailboxes", b"{}", content_type="application/json")
        assert made.status == 201
        listed = json.loads((await run_.api("GET", "/mailboxes")).body)["mailboxes"]
        assert [box["id"] for box in listed] == [json.loads(made.body)["id"]]


async def test_on_loopback_one_listener_has_all(tmp_path: Path) -> None:
    async with running(tmp_path) as run_:
        assert run_.admin_port == 0
        for path in ("/api/v1/subscriptions", "/docs", "/openapi.json", "/metrics", "/readyz"):
            assert (await run_.request("GET", path)).status == 200


async def test_nothing_is_delivered_to_the_administration(tmp_path: Path) -> None:
    async with running(tmp_path, host="0.0.0.0", egress_allow=("127.0.0.0/8",)) as run_:
        for port in (run_.port, run_.admin_port):
            with pytest.raises(AddressRefused):
                run_.gateway.policy.check(parse_target(f"http://127.0.0.1:{port}/"))


async def test_strangers_who_take_all_connections_keep_no_operator_out(tmp_path: Path) -> None:
    async with running(tmp_path, host="0.0.0.0") as run_, AsyncExitStack() as stack:
        for _ in range(run_.gateway.serving.limits.connections_per_address + 1):
            _, writer = await asyncio.open_connection("127.0.0.1", run_.port)
            stack.callback(writer.close)
        assert (await run_.api("GET", "/subscriptions")).status == 200


async def test_clients_are_told_where_to_go(tmp_path: Path) -> None:
    async with running(tmp_path, host="0.0.0.0") as run_:
        async with Administration(run_.url) as administration:
            with pytest.raises(GatewayError) as caught:
                [one async for one in administration.subscriptions()]
        assert "has no administration: it is on a listener of its own" in str(caught.value)
        assert "admin_host and admin_port" in str(caught.value)
        async with Administration(f"http://127.0.0.1:{run_.admin_port}") as administration:
            assert [one async for one in administration.subscriptions()] == []


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({}, None),
        ({"host": "::1"}, None),
        ({"host": "localhost", "mailboxes_only": True}, None),
        ({"host": "0.0.0.0"}, ("127.0.0.1", 8090)),
        ({"host": "0.0.0.0", "mailboxes_only": True}, ("127.0.0.1", 8090)),
        ({"host": "::", "port": 80}, ("::1", 90)),
        ({"host": "192.0.2.1", "port": 0}, ("127.0.0.1", 0)),
        ({"host": "0.0.0.0", "admin_port": 9000}, ("127.0.0.1", 9000)),
        ({"host": "0.0.0.0", "admin_host": "10.0.0.1"}, ("10.0.0.1", 8090)),
        ({"host": "0.0.0.0", "admin_host": "0.0.0.0", "admin_port": 0}, ("0.0.0.0", 0)),
        ({"admin_port": 9000}, ("127.0.0.1", 9000)),
        ({"admin_port": 8080}, None),
        ({"admin_port": 0}, ("127.0.0.1", 0)),
    ],
)
def test_where_it_is(settings: dict[str, object], address: tuple[str, int] | None) -> None:
    assert Settings(**settings).admin == address  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"host": "0.0.0.0", "admin_host": "0.0.0.0", "admin_port": 8080}, "strangers reach it"),
        ({"host": "0.0.0.0", "port": 65530}, "admin_port: must be set"),
        ({"admin_host": "a b"}, "admin_host: "),
        ({"admin_port": 70000}, "admin_port: "),
    ],
)
def test_where_it_cannot_be(settings: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        read_settings(**settings)


def test_the_start_and_doctor_say_where(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        at = (
            "--without-identities",
            "--host",
            "0.0.0.0",
            "--port",
            "0",
            "--data",
            "data",
            "--admin-port",
        )
        done = run("serve", *at, port, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"Cannot listen on 127.0.0.1:{port}" in done.stderr
        said = run("doctor", *at, port, cwd=tmp_path).stdout
        assert re.search(rf"administration.*127\.0\.0\.1:{port}.*--admin-port", said)
    with Program("serve", *at, "0", cwd=tmp_path) as gateway:
        line = gateway.wait_for("administration http")
        found = re.search(r"administration http://127\.0\.0\.1:(\d+)/docs", line)
        assert found is not None
        assert f"metrics http://127.0.0.1:{found[1]}/metrics" in line
        listed = run("subscriptions", "list", "--gateway", f"127.0.0.1:{found[1]}", cwd=tmp_path)
        assert listed.returncode == 0
        assert "is ready" in gateway.wait_for("is ready")
        public = re.search(r"http://127\.0\.0\.1:(\d+)", gateway.wait_for("is ready"))
        assert public is not None
        wrong = run("deadletters", "list", "--gateway", f"127.0.0.1:{public[1]}", cwd=tmp_path)
        assert wrong.returncode == 1
        assert "it is on a listener of its own" in wrong.stderr
    said = run("doctor", "--host", "0.0.0.0", "--port", "0", cwd=tmp_path).stdout
    assert re.search(r"administration.*127\.0\.0\.1, any port is free", said)
    everywhere = ("--host", "0.0.0.0", "--port", "0", "--admin-host", "0.0.0.0")
    said = run("doctor", *everywhere, cwd=tmp_path).stdout
    assert re.search(r"administration.*whoever reaches it", said)


KEPT = ("/docs/", "/console/static/")
"""Files that are the same for everybody."""


@pytest.mark.parametrize("settings", [{}, {"admin_port": 0, "admin_host": "127.0.0.1"}])
async def test_no_answer_is_kept_or_taken_for_another(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    """Of each route that is described, of pages and lists, of refusals of all kinds."""
    async with running(tmp_path, **settings) as gateway:
        page = json.loads((await gateway.admin("GET", "/openapi.json")).body)
        described = [
            path.replace("{", "").replace("}", "")
            for path, methods in page["paths"].items()
            if "get" in methods and path.startswith(("/api", "/xregistry"))
        ]
        others = [
            "/console", "/console/subscriptions", "/console/subscriptions.csv", "/console/none",
            "/console/static/console.css", "/console/static/none", "/docs", "/docs/none",
            "/metrics", "/openapi.json", "/api/none", "/api/v1/subscriptions?limit=x",
        ]  # fmt: skip
        streams = {"/api/v1/tap"}
        for path in (*(one for one in described if one not in streams), *others):
            for method in ("GET", "DELETE"):
                answer = await gateway.admin(method, path)
                assert answer.headers["x-content-type-options"] == "nosniff", (method, path)
                kept = answer.headers["cache-control"]
                is_file = method == "GET" and path.startswith(KEPT) and answer.status == 200
                assert (kept == "no-store") is not is_file, (method, path, kept)
        soap = await gateway.request("GET", "/soap?wsdl")
        assert "cache-control" not in soap.headers
        for path in ("/mailboxes/x", "/events/subscriptions/x"):
            assert (await gateway.request("GET", path)).headers["cache-control"] == "no-store"


async def test_pages_let_nothing_in(tmp_path: Path) -> None:
    async with running(tmp_path) as run_:
        page = await run_.request("GET", "/docs")
        assert page.type.startswith("text/html")
        for name, value in HEADERS.items():
            assert page.headers[name] == value
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert "unsafe-inline" not in re.findall(r"script-src ([^;]*)", str(page.headers))[0]
        assert b"//" not in page.body
        for asset in re.findall(rb'(?:src|href)="([^"]+)"', page.body):
            answer = await run_.request("GET", f"/{asset.decode()}")
            assert (answer.status, answer.headers["x-content-type-options"]) == (200, "nosniff")
            assert answer.body
        for path in ("/docs/x", "/docs/..%2fapp.py", "/docs/swagger-ui.js"):
            assert (await run_.request("GET", path)).status == 404


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
async def test_the_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    """A browser that reaches nothing but the gateway shows all operations, and complains of
    nothing."""
    async with running(tmp_path / "data") as run_:
        process = await asyncio.create_subprocess_exec(
            str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--incognito",
            f"--user-data-dir={tmp_path}/profile", "--disable-dev-shm-usage",
            "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
            "--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom",
            f"{run_.url}/docs",
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            page, said = await asyncio.wait_for(process.communicate(), 120)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    for shown in (b"/api/v1/subscriptions", b"/mailboxes/{key}/receive", b"/soap", b"dead letters"):
        assert shown in page.replace(b"\xe2\x80\x8b", b""), shown
    assert b"CONSOLE" not in said, said
