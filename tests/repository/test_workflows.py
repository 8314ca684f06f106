"""The files that a hosting service reads follow the schemas that it publishes."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SCHEMAS = [
    ("vendor.github-workflows", WORKFLOWS),
    ("vendor.github-actions", sorted((ROOT / ".github" / "actions").glob("*/action.yml"))),
    ("vendor.github-issue-config", [ROOT / ".github/ISSUE_TEMPLATE/config.yml"]),
    (
        "vendor.github-issue-forms",
        [p for p in sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")) if p.stem != "config"],
    ),
]


@pytest.mark.parametrize(("schema", "files"), SCHEMAS, ids=[s for s, _ in SCHEMAS])
def test_files_follow_their_schema(schema: str, files: list[Path]) -> None:
    assert files
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    done = subprocess.run([*command, *map(str, files)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_workflows_run_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for path in WORKFLOWS:
        jobs = yaml.safe_load(path.read_text())["jobs"]
        commands = [s["run"] for j in jobs.values() for s in j["steps"] if "run" in s]
        for command in commands:
            for line in command.splitlines():
                words = shlex.split(line)
                if words[:1] != ["make"]:
                    continue
                for target in (w for w in words[1:] if re.fullmatch(r"[a-z-]+", w)):
                    assert re.search(rf"^{target}:", makefile, re.MULTILINE), (path.name, target)


def test_workflows_give_no_more_rights_than_reading() -> None:
    for path in WORKFLOWS:
        assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}, path.name
