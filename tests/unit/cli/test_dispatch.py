"""The command line finds its commands and ends each one with the documented exit code."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from glasshouse import cli
from glasshouse.errors import FormatError


@pytest.fixture
def with_command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], int]], None]:
    """Puts one command `probe FILE` on the command line."""

    def install(work: Callable[[str], int]) -> None:
        module = ModuleType("glasshouse.cli.probe")
        module.HELP = "a command of this test"
        module.add_arguments = lambda parser: parser.add_argument("file")
        module.run = lambda args: work(args.file)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        real = cli.build_parser
        monkeypatch.setattr(cli, "build_parser", lambda: real(["probe"]))

    return install


def fail_with(error: BaseException) -> Callable[[str], int]:
    def work(_: str) -> int:
        raise error

    return work


@pytest.mark.parametrize("code", [0, 1])
def test_exit_code_is_the_commands(with_command, code: int) -> None:
    with_command(lambda file: code if file == "a.onnx" else 99)
    assert cli.main(["probe", "a.onnx"]) == code


def test_user_error_is_a_message_and_2(with_command, capsys: pytest.CaptureFixture[str]) -> None:
    with_command(fail_with(FormatError("not a recording", where="a.glass", hint="give another")))
    assert cli.main(["probe", "a.glass"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("glasshouse probe: not a recording")
    assert "a.glass" in printed.err
    assert "give another" in printed.err
    assert "Traceback" not in printed.err


def test_missing_file_is_a_message_and_2(with_command, capsys: pytest.CaptureFixture[str]) -> None:
    with_command(lambda file: len(Path(file).read_text()))
    assert cli.main(["probe", "no/such/file"]) == 2
    assert capsys.readouterr().err == "glasshouse probe: no/such/file: No such file or directory\n"


def test_debug_keeps_the_traceback(with_command) -> None:
    with_command(fail_with(FormatError("not a recording")))
    with pytest.raises(FormatError):
        cli.main(["--debug", "probe", "a.glass"])


def test_own_mistakes_are_not_hidden(with_command) -> None:
    with_command(fail_with(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        cli.main(["probe", "a"])


def test_interrupt(with_command) -> None:
    with_command(fail_with(KeyboardInterrupt()))
    assert cli.main(["probe", "a"]) == 130


def test_unknown_command_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["no-such-command"])
    assert stop.value.code == 2
    assert "no-such-command" in capsys.readouterr().err


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    printed = capsys.readouterr().out
    for name in cli.COMMANDS:
        assert f"\n    {name} " in printed


def test_every_command_has_its_help() -> None:
    for name in cli.COMMANDS:
        module = cli.command(name)
        assert module.HELP
        module.add_arguments(argparse.ArgumentParser())


def test_version_from_the_shell() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "glasshouse", "--version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.startswith("glasshouse 0.")


def test_closed_pipe_is_no_error() -> None:
    """`glasshouse --help | head -1` and the like."""
    script = (
        "import sys\nfrom glasshouse import cli\n"
        "class probe:\n"
        "    HELP = 'h'\n"
        "    add_arguments = staticmethod(lambda parser: None)\n"
        "    run = staticmethod(lambda args: print('x\\n' * 1_000_000) or 0)\n"
        "cli.command = lambda name: probe\n"
        "real = cli.build_parser\ncli.build_parser = lambda: real(['probe'])\n"
        "sys.exit(cli.main(['probe']))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == "x\n"
        child.stdout.close()
        assert child.stderr.read() == ""
        assert child.wait() == 0
