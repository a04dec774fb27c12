"""Hooks of mkdocs: the pages of the site are all Markdown files of the repository, under the same paths.

So their links to each other work in the site as they do in the repository. Links to other files, such as source code,
become plain text: the site does not contain them. (tests/repository/test_document_blocks.py checks that those files
exist.) Decisions and further pages are added to the navigation here, so that a new one needs no entry in mkdocs.yml.
"""

from __future__ import annotations

import posixpath
import re
import subprocess
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\[([^\]\[]*)\]\(([^()\s]+)\)")
OTHER = {
    "docs/adr/": "Decisions",
    "docs/": "Users",
    "": "Developers",
}  # by folder: the section of pages that nav does not name


def pages() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [path for path in listed.stdout.split() if not (ROOT / path).is_symlink()]


def on_config(config: Any) -> Any:
    sections: dict[str, Any] = {title: found for one in config.nav for title, found in one.items()}
    named = {page for found in sections.values() if isinstance(found, list) for one in found for page in one.values()}
    for page in sorted(set(pages()) - named - {"README.md"}):
        title = next(title for folder, title in OTHER.items() if page.startswith(folder))
        sections.setdefault(title, []).append(page)
    config.nav = [{title: found} for title, found in sections.items()]
    return config


def on_files(files: Files, config: Any) -> Files:
    theirs = [file for file in files if not file.is_documentation_page() and not file.src_uri.endswith(".py")]
    ours = [File.generated(config, page, abs_src_path=str(ROOT / page)) for page in pages()]
    return Files([*theirs, *ours])


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    def shown(found: re.Match[str]) -> str:
        text, target = found[1], found[2]
        if "://" in target or target.startswith(("#", "mailto:")):
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), target.partition("#")[0]))
        if files.get_file_from_path(path) is not None or not (ROOT / path).exists():
            return found[0]  # to a page; or wrong, which mkdocs reports
        readme = f"{path}/README.md"
        return f"[{text}]({target.rstrip('/')}/README.md)" if files.get_file_from_path(readme) is not None else text

    return LINK.sub(shown, markdown)
