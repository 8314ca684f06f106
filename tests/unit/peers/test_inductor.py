"""Inductor's generated code, read into rows over our graph of the same model."""

from __future__ import annotations

import torch

import glasshouse as gh
from glasshouse.peers.inductor import add_calls, calls_in, kernels_in
from glasshouse.record.recorder import Recorder
from glasshouse.record.schema import KernelRow, TimeRow
from glasshouse.record.writer import RecordingBuilder
from glasshouse.show.priced import kernel_groups

# As torch 2.13 writes it, shortened.
CODE = """
cpp_fused_gelu_0 = async_compile.cpp_pybinding(['float*', 'const float*'], r'''
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(float* in_out_ptr0, const float* in_ptr0) { }
''')

async_compile.wait(globals())

class Runner:
    def call(self, args):
        buf0 = empty_strided_cpu((4, 32), (32, 1), torch.float32)
        # Topologically Sorted Source Nodes: [linear], Original ATen: [aten.addmm]
        extern_kernels.addmm(arg2_1, arg0_1, reinterpret_tensor(arg1_1), alpha=1, beta=1, out=buf0)
        buf1 = buf0; del buf0  # reuse
        # Topologically Sorted Source Nodes: [gelu], Original ATen: [aten.gelu]
        cpp_fused_gelu_0(buf1, buf2)
        return (buf1, )
"""


def test_calls_and_code_are_read() -> None:
    first, second = calls_in(CODE)
    assert (first.name, first.sources, first.ops) == (
        "extern_kernels.addmm", ("linear",), ("aten.addmm",),
    )  # fmt: skip
    assert (second.name, second.ops) == ("cpp_fused_gelu_0", ("aten.gelu",))
    assert "void kernel" in kernels_in(CODE)["cpp_fused_gelu_0"]


def test_kernels_find_their_ops_and_times() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU()).eval()
    graph = gh.trace(model, torch.ones(4, 16))
    recorder = Recorder("model")
    recorder.begin(graph)
    builder = RecordingBuilder.of(recorder.finish())
    events = {"aten::addmm": 3e-5, "cpp_fused_gelu_0": 1e-5, "aten::empty": 1.0}
    add_calls(builder, graph, [CODE], events)
    recording = builder.finish()
    view = recording.graphs[0]
    product, gelu = view.table(KernelRow)
    assert product.title == "0: addmm"
    assert gelu.title == "1: gelu"
    assert "void kernel" in gelu.code
    assert [graph.find(i).op.name for i in gelu.ops] == ["gelu"]
    assert {t.kernel: t.seconds for t in view.table(TimeRow)} == {0: 3e-5, 1: 1e-5}
    assert recording.header.facts["kernels with their ops"] == "2 of 2"
    assert [g.title for g in kernel_groups(recording, view)] == ["0: addmm", "1: gelu"]
