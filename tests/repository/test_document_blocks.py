"""Every code block, link and anchor of the documents: Python compiles and imports what exists, shell names commands,
options, targets and scripts that exist, YAML and JSON parse, modules exist, links and anchors lead somewhere."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from ruamel.yaml import YAML

from remuda.main import cli

ROOT = Path(__file__).resolve().parents[2]


def tracked(pattern: str) -> list[str]:
    command = ["git", "ls-files", pattern]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()


FILES, MODULES = tracked("*.md"), tracked("*.py")
DOCUMENTS = [ROOT / file for file in FILES if not (ROOT / file).is_symlink()]
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]\[]*\]\(([^()\s]+)\)")
MODULE = re.compile(r"`([\w./{},-]+\.py)`")
# Modules that a reader of the documents writes.
OWN_MODULES = {"rm.py"}
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)) | {".venv/.ready"}
# Commands in the shell examples that are not part of this repository.
FOREIGN = {
    "base64", "cd", "cp", "curl", "decode", "docker", "docker-compose", "done", "echo", "encode", "export", "for",
    "break",
    "grpcurl", "helm", "jq", "kubectl", "mkdir", "nats", "openssl", "pip", "protoc", "python", "sed", "sleep", "source",
    "uvx", "while",
}  # fmt: skip
WORDS = {"if", "then", "else", "do", "time", "sudo", "{", "("}


class Block(NamedTuple):
    document: Path
    line: int
    language: str
    text: str


def blocks() -> Iterator[Block]:
    for document in DOCUMENTS:
        text = document.read_text()
        for found in BLOCK.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield Block(document, line, found[2], re.sub(rf"^{found[1]}", "", found[3], flags=re.MULTILINE))


def name_of(block: Block) -> str:
    return f"{block.document.relative_to(ROOT)}:{block.line}"


def of(*languages: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("block", [one for one in blocks() if one.language in languages], ids=name_of)


@of("python")
def test_python_compiles_and_imports_what_exists(block: Block) -> None:
    tree = ast.parse(block.text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("remuda"):
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")


@of("yaml")
def test_yaml_parses(block: Block) -> None:
    assert list(YAML(typ="safe").load_all(block.text))


@of("json")
def test_json_parses(block: Block) -> None:
    json.loads(block.text)


@of("sh", "")
def test_commands_exist(block: Block) -> None:
    for command in commands(block):
        check(command, strict=block.language == "sh")


def commands(block: Block) -> Iterator[list[str]]:
    """The words of each command: of every line of a `sh` block, elsewhere of lines that begin with `$`, remuda or
    make."""
    text = re.sub(r"<<'(\w+)'.*?^\1$", "", block.text, flags=re.MULTILINE | re.DOTALL).replace("\\\n", " ")
    for line in text.splitlines():
        stripped = line.removeprefix("$ ").strip()
        is_command = line.startswith(("$ ", "remuda ", "make ")) or block.language == "sh"
        if not stripped or stripped.startswith("#") or not is_command:
            continue
        described = re.split(r" {2,}", stripped)[0] if block.language != "sh" else stripped
        plain = re.sub(r"\$\([^()]*\)|'[^']*'|\"[^\"]*\"", "TEXT", described.partition(" #")[0])
        for part in re.split(r"\s*(?:\|\||&&|[|;])\s*", plain):
            words = part.split()
            while words and (re.match(r"\w+=", words[0]) or words[0] in WORDS):
                words.pop(0)
            if words:
                yield words


def check(words: list[str], strict: bool) -> None:
    name = words[0]
    if name == "make":
        for word in words[1:]:
            assert "=" in word or word in TARGETS, f"make {word}: no such target"
    elif name == "remuda":
        check_remuda([re.sub(r"[\[\],]", "", word) for word in words[1:]])
    elif "cli" in words and name in ("docker-compose", "$compose"):
        check_remuda(words[words.index("cli") + 1 :])
    elif "/" in name:
        assert (ROOT / name.removesuffix("...")).exists(), f"{name}: no such file"
    elif strict:
        assert name in FOREIGN or name.startswith(("$", "}")) or re.match(r"\w+\(\)", name), f"{name}: not known"


@cache
def remuda_command() -> Any:
    return typer.main.get_command(cli)


def check_remuda(words: list[str]) -> None:
    command = remuda_command()
    for index, word in enumerate(words):
        if not hasattr(command, "commands") or word.startswith("-"):
            check_options(command, words[index:])
            return
        assert word in command.commands, f"remuda {' '.join(words)}: no such command"
        command = command.commands[word]


def check_options(command: Any, words: list[str]) -> None:
    known = {option for parameter in command.params for option in parameter.opts} | {
        "--help", "--install-completion", "--show-completion",
    }  # fmt: skip
    for word in words:
        assert not word.startswith("--") or word.partition("=")[0] in known, f"{word}: no such option of {command.name}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_in_the_text_exist(document: Path) -> None:
    for code in re.findall(r"`((?:make|remuda) [^`\n]+)`", BLOCK.sub("", document.read_text())):
        plain = re.sub(r"'[^']*'|\"[^\"]*\"", "TEXT", re.sub(r"[\[\]]|\.\.\.", "", code))
        check(plain.split(), strict=False)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_modules_in_the_text_exist(document: Path) -> None:
    """`a/{b,c}.py` names two. A path may begin anywhere below the root."""
    for named in MODULE.findall(BLOCK.sub("", document.read_text())):
        head, _, rest = named.partition("{")
        names, _, tail = rest.partition("}")
        for path in [f"{head}{name}{tail}" for name in names.split(",")] if rest else [named]:
            exists = any(f"/{one}".endswith(f"/{path}") for one in MODULES)
            assert exists or path in OWN_MODULES, f"{path}: no such module"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_and_anchors_lead_somewhere(document: Path) -> None:
    for link in LINK.findall(BLOCK.sub("", document.read_text())):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), f"{link}: no such file"
        assert target.is_relative_to(ROOT), f"{link}: outside of the repository"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{link}: no such heading"


def anchors(document: Path) -> set[str]:
    """Of its headings, as GitHub and the site make them."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#+ +(.+?) *#*$", BLOCK.sub("", document.read_text()), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.add(slug if not seen[slug] else f"{slug}-{seen[slug]}")
        seen[slug] += 1
    return found
