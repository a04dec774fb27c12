"""The page's editor of queues.yaml in a real Chromium: its previews, its line numbers, and what is typed there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import pytest
from playwright.async_api import Dialog

from remuda.embedded import NatsServer
from remuda_sdk import ask, node
from tests.system.browser import Tab, needs_chromium, tab
from tests.system.running import QUEUES, placed
from tests.system.test_web import Web, rm_with_work, web_of

pytestmark = [needs_chromium, pytest.mark.timeout(180)]
MAX = QUEUES.replace("{name: a}", "{name: a, resources: {max: {vcore: 4, memory: 8Gi, gpu: 40}}}")
LESS = QUEUES.replace("{name: a}", "{name: a, resources: {max: {vcore: 500m, gpu: 4}}}")
# How far the numbers are from their lines, in pixels, wherever one has scrolled to. The page learns of a scroll with
# the next frame.
DISTANCE = """async () => {
  const area = document.querySelector("#editor"), lines = document.querySelector(".editor .lines");
  const top = (one) => one.getBoundingClientRect().top + parseFloat(getComputedStyle(one).paddingTop) - one.scrollTop;
  const height = (one) => parseFloat(getComputedStyle(one).lineHeight);
  const distance = () => Math.abs(top(area) - top(lines)) + Math.abs(height(area) - height(lines));
  for (let frames = 0; distance() >= 0.5 && frames < 300; frames++) await new Promise(requestAnimationFrame);
  return distance();
}"""


@pytest.fixture
async def web(server: NatsServer, tmp_path: Path) -> AsyncIterator[Web]:
    (tmp_path / "queues.yaml").write_text(MAX)
    async with web_of(server.url, tmp_path / "queues.yaml") as found:
        yield found


def page_of(web: Web) -> str:
    return str(web.client.base_url.copy_with(path="/"))


async def test_a_preview_shows_amounts_and_nested_settings(web: Web) -> None:
    rm = await rm_with_work(web, "rm-1", "")
    await rm.report_nodes(node("n2", vcore="4"))
    await rm.ask(ask("app", "core", vcore="1"))
    await placed(rm, "core", "big")  # of vcore 0.009, which fits now
    async with tab(page_of(web)) as found:
        await found.open("configuration/rm-1/edit")
        limits = "limits: [{limit: few, users: [bob], maxapplications: 2, maxresources: {vcore: 1500m, memory: 4Gi}}]"
        await found.page.get_by_label("queues.yaml").fill(LESS.replace("name: default,", f"name: default, {limits},"))
        await found.shows("valid")
        await found.page.get_by_role("button", name="Preview").click()
        await found.shows(
            "root.a changed: max vcore 4, memory 8 GiB, gpu 40 → vcore 0.5, gpu 4",
            "root.a: vcore 1.01, may use 0.5, 0.51 over",
            "limits none → (users bob, max resources vcore 1.5, memory 4 GiB, max applications 2, description few)",
        )
        assert "[object" not in await found.page.locator("main").inner_text()
    await rm.__aexit__(None, None, None)


async def test_line_numbers_stay_beside_their_lines(web: Web) -> None:
    rm = await rm_with_work(web, "rm-1", "")
    async with tab(page_of(web)) as found:
        await found.open("configuration/rm-1/edit")
        editor = found.page.get_by_label("queues.yaml")
        long = "# " + "x" * 300
        comments = "\n".join(f"# größe 中文 {number}" for number in range(150))
        await editor.fill(f"{comments}\n{long}\n{MAX.replace('name: a', 'colour: a')}\n# end")
        await found.shows("unknown key 'colour'")
        for key in (
            "Control+End",
            "Enter",
            "Enter",
            "Control+Home",
            "PageDown",
            "PageDown",
            "Control+End",
            "Backspace",
        ):
            await editor.press(key)
            assert await found.page.evaluate(DISTANCE) < 0.5
        numbers = await found.page.locator(".editor .lines").inner_text()
        assert numbers.split()[-1] == str((await editor.input_value()).count("\n") + 1)
        await editor.press("Control+Home")
        await found.page.get_by_role("button", name="line 152").first.click()
        assert await editor.evaluate("area => area.value.slice(area.selectionStart, area.selectionEnd)") != ""
        assert "colour" in await editor.evaluate("area => area.value.slice(area.selectionStart, area.selectionEnd)")
        assert await editor.evaluate("area => area.scrollTop") > 1_000
        assert await found.page.evaluate(DISTANCE) < 0.5
    await rm.__aexit__(None, None, None)


async def _typed(found: Tab, words: str) -> bool:
    return words in await found.page.get_by_label("queues.yaml").input_value()


async def test_what_is_typed_stays_until_it_is_applied_or_given_up(web: Web) -> None:
    rm, other = await rm_with_work(web, "rm-1", ""), await rm_with_work(web, "rm-2", "")
    async with tab(page_of(web)) as found:
        page = found.page
        asked: list[str] = []

        def accept(dialog: Dialog) -> Awaitable[None]:
            asked.append(dialog.type)
            return dialog.accept()

        page.on("dialog", accept)
        await found.open("configuration/rm-1/edit")
        await page.get_by_label("queues.yaml").fill(f"# mine\n{LESS}")
        # Another operator puts a version in force meanwhile.
        answer = await web.client.post(
            str(web.client.base_url.copy_with(path="/api/v1/configuration")), json={"text": f"# theirs\n{MAX}"}
        )
        assert answer.status_code == 200, answer.text
        await page.get_by_role("link", name="queues").click()
        await found.shows("partition default")
        await page.get_by_role("link", name="configuration", exact=True).click()
        await found.shows("version 2")
        await page.get_by_role("link", name="Edit the file").click()
        await found.shows("What you typed before is here again")
        assert await _typed(found, "# mine") and not asked
        await page.get_by_role("combobox", name="RM").select_option("rm-2")
        await page.get_by_role("link", name="Edit the file").click()
        assert await _typed(found, "# mine")
        await page.reload()
        await found.shows("What you typed before is here again")
        assert await _typed(found, "# mine") and asked == ["beforeunload"]
        # It was made from version 1.
        await found.shows("valid")
        await page.get_by_role("button", name="Apply").click()
        await found.shows("version 2")
        assert "409" in " ".join(found.problems)
        found.problems.clear()
        await page.get_by_role("button", name="Begin anew").click()
        await page.get_by_text("What you typed before").wait_for(state="hidden")
        assert await _typed(found, "# theirs")
        await page.get_by_label("queues.yaml").fill(f"# ours\n{LESS}")
        await found.shows("valid")
        await page.get_by_role("button", name="Apply").click()
        await found.shows("version 3")
        await page.get_by_role("link", name="Edit the file").click()
        assert await _typed(found, "# ours") and not await page.get_by_text("What you typed before").is_visible()
        await page.close(run_before_unload=True)
        assert asked.count("beforeunload") == 1, "nothing is left to lose"
    for one in (rm, other):
        await one.__aexit__(None, None, None)


async def test_a_system_without_a_file_names_the_setting(server: NatsServer) -> None:
    async with web_of(server.url) as web:
        rm = await rm_with_work(web, "rm-1")
        async with tab(page_of(web)) as found:
            for place in ("configuration/rm-1", "configuration/rm-1/edit"):
                await found.open(place)
                await found.shows("the setting config.file names one, as `remuda up --config FILE` does")
                assert not await found.page.get_by_role("link", name="Edit the file").is_visible()
            found.problems[:] = [one for one in found.problems if "404" not in one]
        await rm.__aexit__(None, None, None)
