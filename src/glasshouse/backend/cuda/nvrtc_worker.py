"""Compiles CUDA C++ with NVRTC: one program, or, run as a script, one after the other for another
process, which sends them through a pipe.

It imports nothing of Glasshouse, so that such a process starts in a few hundredths of a second. A
message is eight bytes of its length and so many bytes; the answer begins with a byte that is 1 for
machine code and 0 for the compiler's words.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Sequence
from typing import IO


def build(library: ctypes.CDLL, text: str, name: str, options: Sequence[str]) -> tuple[bool, bytes]:
    """The machine code of a file, or what NVRTC says against it."""
    program = ctypes.c_void_p()
    file = f"{name}.cu".encode()
    made = ctypes.byref(program)
    status = library.nvrtcCreateProgram(made, text.encode(), file, 0, None, None)
    if status:
        return False, f"status {status}".encode()
    try:
        given = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
        if library.nvrtcCompileProgram(program, len(options), given):
            return False, _held(library, program, "ProgramLog").rstrip(b"\0")
        return True, _held(library, program, "CUBIN")
    finally:
        library.nvrtcDestroyProgram(made)


def _held(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    room = ctypes.create_string_buffer(max(size.value, 1))
    getattr(library, f"nvrtcGet{what}")(program, room)
    return room.raw


def send(stream: IO[bytes], message: bytes) -> None:
    stream.write(len(message).to_bytes(8, "little") + message)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """The next message; None where the other side has ended."""
    size = stream.read(8)
    if len(size) < 8:
        return None
    message = stream.read(int.from_bytes(size, "little"))
    return message if len(message) == int.from_bytes(size, "little") else None


def main() -> None:
    library = ctypes.CDLL(sys.argv[1])
    while (asked := receive(sys.stdin.buffer)) is not None:
        text, name, options = json.loads(asked)
        good, made = build(library, text, name, options)
        send(sys.stdout.buffer, bytes([good]) + made)


if __name__ == "__main__":
    main()
