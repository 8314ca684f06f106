"""What is noted of tasks is asked for at the same time, and a damaged note is none."""

import threading

from glasshouse.distributed import task as tasks
from glasshouse.distributed.task import BUILD, Task, note_of, notes_of

THREE = [Task(BUILD, "zen", f"model{i}") for i in range(3)]


def test_notes_of_a_store_are_asked_for_together(monkeypatch):
    together = threading.Barrier(3, timeout=60)  # passed by three at a time alone

    def asked(task):
        together.wait()
        return {"model": task.model}

    monkeypatch.setattr(tasks, "note_of", asked)
    monkeypatch.setattr(tasks, "store_url", lambda: "s3://fleet")
    assert [n["model"] for n in notes_of(THREE)] == ["model0", "model1", "model2"]


def test_a_note_that_is_damaged_or_whose_files_are_gone_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("GLASSHOUSE_CACHE", str(tmp_path))
    (task, *_) = THREE
    path = tasks._note(task)
    for text in ("", "{", "[]", "7", "null", '{"files": 3}', '{"files": ["gone.so"]}', "\x00\xff"):
        path.write_text(text)
        assert note_of(task) is None, text
    path.write_bytes(b"\xff\xfe")
    assert note_of(task) is None
    path.write_text('{"files": []}')
    assert note_of(task) == {"files": []}
