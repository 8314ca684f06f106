"""Damaged files of every format: read, written in every format and shown; nothing but our errors.

Bytes are flipped, cut, repeated and spliced; structures are taken apart, changed and put together
again, so that checksums and lengths are right and the damage gets past the door. One case again:

    python tests/fuzz/mutated_files.py SEED CASE
"""

from __future__ import annotations

import io
import json
import pickle
import random
import resource
import signal
import struct
import sys
import time
import traceback
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from fuzz.bombs import BOMBS
from fuzz.report import Report
from fuzz.seeds import seeds
from glasshouse import formats
from glasshouse.errors import GlasshouseError
from glasshouse.record import Recording
from glasshouse.show.compare import Side, compare, describe
from glasshouse.show.join import join
from glasshouse.show.report import report as terminal_report

NAME = "mutated_files"
SECONDS = 30.0  # of processor time for one case; a seed takes well under one
MEGABYTES = 1500  # that one case may add to the process

HOSTILE: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**53 + 1, 2**63, -(2**63), 10**400, 0.5, float("nan"),
    float("inf"), 1e308, "", "0", "a" * 5000, ".".join("a" * 600), "/".join("a" * 600), "\0",
    "\ud800", "\u202e\x1b[2J", "../../etc/passwd", "__class__", "é" * 50, "9" * 5000, "1e999",
    [], {}, [[]], [[[[]]]], {"a": {"b": {}}}, ["x"] * 300, list(range(300)), {"as_int": "x"},
    "Graph(", "[1, 2", "{", "float32[", "-5", "gh.id", "0x10", "NaN",
]  # fmt: skip


class TooLong(BaseException):
    """A case that took too much processor time; no boundary inside may keep it."""


# ------------------------------------------------------------------------------ damage
def bytes_changed(chance: random.Random, data: bytes, other: bytes) -> bytes:
    """A few changes of bytes."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        if not out:
            break
        at = chance.randrange(len(out))
        end = min(len(out), at + chance.choice((1, 2, 4, 8, 64, 512)))
        how = chance.randrange(7)
        if how == 0:
            out[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            out[at:end] = chance.randbytes(end - at)
        elif how == 2:
            del out[at:end]
        elif how == 3:
            out[at:at] = out[at:end] * chance.choice((1, 3, 20))
        elif how == 4:
            number = chance.choice((0, 1, 127, 255, 2**16 - 1, 2**31 - 1, 2**32 - 1, len(out)))
            out[at : at + 4] = struct.pack("<I", number)
        elif how == 5:
            start = chance.randrange(len(other))
            out[at:end] = other[start : start + chance.choice((4, 64, 512))]
        else:
            del out[at:]
    return bytes(out)


def value_changed(chance: random.Random, root: Any, changes: int) -> Any:
    """A JSON-like value with some of its parts replaced, dropped, repeated or moved."""
    places: list[tuple[Any, Any]] = []
    waiting = [root]
    while waiting:
        here = waiting.pop()
        if isinstance(here, (dict, list)):
            keys: list[Any] = list(here if isinstance(here, dict) else range(len(here)))
            places += [(here, key) for key in keys]
            waiting += [here[key] for key in keys]
    for _ in range(changes):
        if not places:
            return chance.choice(HOSTILE)
        here, key = chance.choice(places)
        if (isinstance(here, list) and key >= len(here)) or (
            isinstance(here, dict) and key not in here
        ):
            continue
        how = chance.randrange(8)
        if how <= 3:
            here[key] = chance.choice(HOSTILE)
        elif how == 4:
            del here[key]
        elif how == 5:
            other, k = chance.choice(places)
            if (isinstance(other, list) and k < len(other)) or (
                isinstance(other, dict) and k in other
            ):
                here[key] = json.loads(json.dumps(other[k], default=str))
        elif isinstance(here, list):
            here.extend([here[key]] * chance.choice((1, 5, 200)))
        else:
            name = chance.choice(HOSTILE)
            here[name if isinstance(name, str) else str(name)[:100]] = here[key]
    return root


def json_changed(chance: random.Random, data: bytes) -> bytes:
    value = value_changed(chance, json.loads(data), chance.choice((1, 2, 5)))
    out = io.StringIO()
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        json.dump(value, out)
    finally:
        sys.set_int_max_str_digits(limit)
    return out.getvalue().encode("utf-8", "surrogatepass")


def glass_changed(chance: random.Random, data: bytes) -> bytes:
    """A recording whose header, table headers or columns are changed; the archive is whole."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name in chance.sample(sorted(members), min(len(members), chance.choice((1, 1, 2, 4)))):
        old = members[name]
        if name == "glass.json":
            members[name] = json_changed(chance, old)
            continue
        size = int.from_bytes(old[:4], "little")
        head, rest = json.loads(old[4 : 4 + size]), old[4 + size + -(4 + size) % 8 :]
        how = chance.randrange(3)
        if how:
            column = bytearray(rest)
            for _ in range(chance.choice((1, 4, 30))):
                if column:
                    column[chance.randrange(len(column))] = chance.choice((0, 1, 2, 9, 127, 255))
            rest = bytes(column)
        if how != 1:
            head = value_changed(chance, head, 1)
        text = json.dumps(head).encode()
        start = len(text).to_bytes(4, "little") + text
        members[name] = start + bytes(-len(start) % 8) + rest
    if chance.random() < 0.1:
        members.pop(chance.choice(sorted(members)))
    return zipped(members)


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def pickle_changed(chance: random.Random, data: bytes) -> bytes:
    return pickle.dumps(
        value_changed(chance, pickle.loads(data), chance.choice((1, 3))), protocol=4
    )


def pt2_changed(chance: random.Random, data: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        text = archive.read("m/models/model.json")
    return zipped({"m/models/model.json": json_changed(chance, text)})


def keras_changed(chance: random.Random, data: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return zipped(members | {"config.json": json_changed(chance, members["config.json"])})


def torch_changed(chance: random.Random, data: bytes) -> bytes:
    """An archive of PyTorch with one member changed: its pickle or its code."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = chance.choice([n for n in sorted(members) if n.endswith((".pkl", ".py"))])
    other = members[chance.choice(sorted(members))]
    return zipped(members | {name: bytes_changed(chance, members[name], other or b"x")})


def safetensors_changed(chance: random.Random, data: bytes) -> bytes:
    size = int.from_bytes(data[:8], "little")
    text = json_changed(chance, data[8 : 8 + size])
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def repeated(field: Any) -> bool:
    """Whether a protobuf field is a list; older packages say it in another way."""
    said = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if said is None else said)


def onnx_changed(chance: random.Random, data: bytes) -> bytes:
    """A model with some fields of some messages set to something else, or doubled."""
    import onnx

    model = onnx.ModelProto()
    model.ParseFromString(data)
    messages: list[Any] = [model]
    for message in messages:  # grows while it is walked
        for field, value in message.ListFields():
            if field.type == field.TYPE_MESSAGE:
                messages += value if repeated(field) else [value]
    for _ in range(chance.choice((1, 2, 6))):
        message = chance.choice(messages)
        field = chance.choice(list(message.DESCRIPTOR.fields))
        try:
            if field.type == field.TYPE_MESSAGE:
                if repeated(field) and len(getattr(message, field.name)):
                    getattr(message, field.name).append(getattr(message, field.name)[0])
                else:
                    message.ClearField(field.name)
                continue
            value = chance.choice(HOSTILE)
            if field.type == field.TYPE_BYTES:
                value = chance.randbytes(chance.choice((0, 3, 100)))
            if repeated(field):
                getattr(message, field.name).extend([value] * chance.choice((1, 3, 50)))
            else:
                setattr(message, field.name, value)
        except (TypeError, ValueError, OverflowError):
            continue  # this value has no place in this field
    out: bytes = model.SerializeToString()
    return out


STRUCTURAL: dict[str, Callable[[random.Random, bytes], bytes]] = {
    ".glass": glass_changed,
    ".json": json_changed,
    ".pkl": pickle_changed,
    ".pt2": pt2_changed,
    ".safetensors": safetensors_changed,
    ".onnx": onnx_changed,
    ".keras": keras_changed,
    ".pt": torch_changed,
}


# ------------------------------------------------------------------------------ trying
def everything(data: bytes, name: str, over: Recording) -> None:
    """All that can be done with a file: read, pack, write in every format, report, compare."""
    try:
        read = formats.read(data, name)
    except GlasshouseError:
        attached(over, data, name)
        return
    for step in (
        lambda: read.to_bytes() and None,
        lambda: terminal_report(read),
        lambda: join([over, read]),
        lambda: described(over, read),
        *(lambda f=f: written(read, f.name) for f in formats.FORMATS if f.writer),
    ):
        try:
            step()
        except GlasshouseError:
            continue
    attached(over, data, name)


def written(read: Recording, name: str) -> None:
    """A format that we write is one that we can read again."""
    data = formats.dump(read, name)
    chosen = next(f for f in formats.FORMATS if f.name == name)
    if chosen.reader:
        formats.read(data, f"again{chosen.extensions[0]}")


def attached(over: Recording, data: bytes, name: str) -> None:
    try:
        if formats.detect(data, name) in ("node_data", "styler", "sync"):
            formats.attach(over, data, name).to_bytes()
    except GlasshouseError:
        return


def described(a: Recording, b: Recording) -> None:
    if b.graphs:
        describe(compare(Side(a, a.stage(0, -1), "a"), Side(b, b.stage(0, -1), "b")))


class Campaign:
    """The cases of one seed: case `i` is the same in every run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.files = seeds()
        self.names = sorted(self.files)
        self.over = formats.read(self.files["seed.glass"], "seed.glass")
        self.bombs = sorted(BOMBS)

    def case(self, number: int) -> tuple[str, bytes]:
        """A file name and bytes. The crafted bombs come first."""
        if number < len(self.bombs):
            return BOMBS[self.bombs[number]]()
        chance = random.Random(f"{self.seed} {number}")
        name = chance.choice(self.names)
        data = self.files[name]
        change = STRUCTURAL.get(Path(name).suffix)
        if change is not None and chance.random() < 0.7:
            try:
                data = change(chance, data)
            except (ValueError, TypeError, RecursionError):
                data = bytes_changed(chance, data, self.files[chance.choice(self.names)])
        else:
            data = bytes_changed(chance, data, self.files[chance.choice(self.names)])
        if chance.random() < 0.05:
            name = f"{chance.choice(('x', 'a' * 300, chr(0), chr(0xD800)))}{Path(name).suffix}"
        return name, data

    def run(self, number: int, report: Report) -> None:
        again = f"python tests/fuzz/mutated_files.py {self.seed} {number}"
        report.case(again)
        name, data = self.case(number)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            everything(data, name, self.over)
        except BaseException as error:
            signal.setitimer(signal.ITIMER_PROF, 0)
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            report.found(title_of(error), traceback.format_exc()[-3000:], again)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
        if grown > MEGABYTES:
            report.found(f"{grown} MB for {name[:40]!r}", f"{len(data)} bytes", again)


def title_of(error: BaseException) -> str:
    """The kind of an error and the innermost of our functions that it went through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "glasshouse" in f.filename] or list(frames)
    return f"{type(error).__name__} in {Path(ours[-1].filename).name}:{ours[-1].name}"


def stop(number: int, frame: FrameType | None) -> None:
    raise TooLong(f"more than {SECONDS:g} seconds")


def run(seed: int, until: float, report: Report) -> None:
    """Cases until the time is up."""
    signal.signal(signal.SIGPROF, stop)
    campaign = Campaign(seed)
    number = 0
    while time.monotonic() < until:
        campaign.run(number, report)
        number += 1


if __name__ == "__main__":
    file_name, content = Campaign(int(sys.argv[1])).case(int(sys.argv[2]))
    print(file_name[:100].encode("unicode_escape").decode(), len(content), "bytes")
    everything(content, file_name, formats.read(seeds()["seed.glass"], "seed.glass"))
