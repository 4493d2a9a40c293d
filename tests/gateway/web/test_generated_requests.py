"""Requests that Schemathesis makes of the description of the HTTP interface: whatever it says may be
sent, and much that it says may not, is answered as it says."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.gateway.web.console.sample_gateway import sample_gateway

CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_schema_conformance",
)  # fmt: skip
SECONDS = 280.0


@pytest.mark.nightly
@pytest.mark.holds_loop("thousands of requests at once, on cores that others use")
async def test_all_of_the_interface(tmp_path: Path) -> None:
    """All of the interface in JSON but for answers without an end, or that wait for messages; with
    something in each list. On two busy cores it takes three minutes."""
    pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    async with sample_gateway(tmp_path / "data") as run:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "schemathesis.cli", "run", f"{run.url}/openapi.json",
            "--include-path-regex", "^/(api/v1|mailboxes|xregistry)",
            "--exclude-path-regex", "^/api/v1/tap$|/(events|receive)$",
            "--phases", "examples,coverage,fuzzing", "--checks", ",".join(CHECKS),
            "--max-examples", "20", "--generation-deterministic", "--continue-on-failure",
            "--no-color",
            cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            async with asyncio.timeout(SECONDS):
                said, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        assert process.returncode == 0, said.decode()[-8000:]
        assert "Tested:" in said.decode()
