"""A real OpenID provider (oidc-provider of npm) for tests, and people who log in there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urljoin

import httpx

from tests.patience import READY_S
from tests.system.node_packages import installed_packages

FOLDER = Path(__file__).parent / "oidc"
SECRET = "the-secret-of-remuda"
PROGRAM_SECRET = "the-secret-of-a-program"
_FORM = re.compile(r'<form[^>]*action="([^"]+)"')
_PROMPT = re.compile(r'name="prompt" value="(\w+)"')


@asynccontextmanager
async def openid_provider(directory: Path, redirect_uri: str) -> AsyncIterator[str]:
    """The issuer. Skips the test where npm or its packages cannot be had."""
    packages = await asyncio.to_thread(installed_packages, FOLDER)
    (directory / "node_modules").symlink_to(packages)
    script = directory / "provider.mjs"
    script.write_text((FOLDER / "provider.mjs").read_text())
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        "node", script, redirect_uri, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        async with asyncio.timeout(30):
            async for line in process.stdout:
                if line.startswith(b"http"):
                    break
            else:
                raise AssertionError("the provider has ended")
        yield line.decode().strip()
    finally:
        process.stdin.close()
        await process.wait()


async def token_for_program(issuer: str, client: str, audience: str = "urn:remuda") -> str:
    """A JWT with this audience, by the client credentials of a program."""
    async with httpx.AsyncClient(timeout=READY_S) as http:
        answer = await http.post(
            f"{issuer}/token", auth=(httpx.URL("", params={"": client}).query.decode()[1:], PROGRAM_SECRET),
            data={"grant_type": "client_credentials", "resource": audience},
        )  # fmt: skip
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])


async def log_in(browser: httpx.AsyncClient, login: str, account: str) -> httpx.Response:
    """Fill in the forms of the provider, as a person does. The answer of the web service to the callback."""
    answer = await browser.get(login)
    for _ in range(20):
        if answer.is_redirect:
            target = urljoin(str(answer.url), answer.headers["Location"])
            answer = await browser.get(target)
            if "/login/callback" in target:
                return answer
        else:
            form, prompt = _FORM.search(answer.text), _PROMPT.search(answer.text)
            assert answer.status_code == 200 and form and prompt, answer.text
            fields = {"prompt": prompt[1], "login": account, "password": "any"}
            answer = await browser.post(urljoin(str(answer.url), form[1]), data=fields)
    raise AssertionError("the login does not end")
