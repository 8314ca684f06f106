"""Inductor's generated code, read into rows over our graph of the same model."""

from __future__ import annotations

import torch

import glasshouse as gh
from glasshouse.peers.inductor import add_calls, calls_in, kernels_in
from glasshouse.record.recorder import Recorder
from glasshouse.record.schema import KernelRow, TimeRow
from glasshouse.record.writer import RecordingBuilder
from glasshouse.show.priced import kernel_groups

# As torch 2.13 writes it for a Linear, a GELU, a LayerNorm and a Linear; shortened.
CODE = """
cpp_fused_gelu_native_layer_norm_0 = async_compile.cpp_pybinding(['float*', 'const float*'], r'''
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(float* in_out_ptr0, const float* in_ptr1)
''')

async_compile.wait(globals())

class Runner:
    def call(self, args):
        buf0 = empty_strided_cpu((4, 32), (32, 1), torch.float32)
        # Topologically Sorted Source Nodes: [input_1], Original ATen: [aten.t, aten.addmm]
        extern_kernels.addmm(arg1_1, arg2_1, reinterpret_tensor(arg0_1), alpha=1, beta=1, out=buf0)
        buf4 = buf0; del buf0  # reuse
        cpp_fused_gelu_native_layer_norm_0(buf2, buf4, arg3_1, arg4_1, buf3)
        buf5 = empty_strided_cpu((4, 8), (8, 1), torch.float32)
        # Topologically Sorted Source Nodes: [input_2, input_3, input_4], Original ATen: \\
[aten.gelu, aten.native_layer_norm, aten.t, aten.addmm]
        extern_kernels.addmm(arg6_1, buf4, reinterpret_tensor(arg5_1), alpha=1, beta=1, out=buf5)
        return (buf5, )
""".replace("\\\n", "")


def test_calls_and_code_are_read() -> None:
    first, second, third = calls_in(CODE)
    assert (first.name, first.ops) == ("extern_kernels.addmm", ("addmm",))
    assert second.ops == ("gelu", "native_layer_norm")
    assert third.ops == ("addmm",)
    assert "void  kernel" in kernels_in(CODE)["cpp_fused_gelu_native_layer_norm_0"]


def test_kernels_find_their_ops_and_times() -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 8)
    ).eval()
    graph = gh.trace(model, torch.ones(4, 16))
    recorder = Recorder("model")
    recorder.begin(graph)
    builder = RecordingBuilder.of(recorder.finish())
    generated = "cpp_fused_gelu_native_layer_norm_0"
    events = {"aten::addmm": 6e-5, f"graph_0_{generated}": 1e-5, "aten::empty": 1.0}
    add_calls(builder, graph, [CODE], events)
    recording = builder.finish()
    view = recording.graphs[0]
    titles = [k.title for k in view.table(KernelRow)]
    assert titles == ["0: addmm", "2: gelu + native_layer_norm", "3: addmm"]
    fused = list(view.table(KernelRow))[1]
    assert "void  kernel" in fused.code
    assert [graph.find(i).op.name for i in fused.ops] == ["gelu", "layer_norm"]
    assert {t.kernel: t.seconds for t in view.table(TimeRow)} == {0: 3e-5, 1: 1e-5, 2: 3e-5}
    assert recording.header.facts["kernels with their ops"] == "3 of 3"
    groups = [g.title for g in kernel_groups(recording, view)]
    assert groups == ["*: addmm", "2: gelu + native_layer_norm"]  # by time, equal code together
