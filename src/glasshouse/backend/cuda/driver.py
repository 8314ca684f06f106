"""The CUDA driver through ctypes: the functions that are used, each status checked.

A GPU is used through its primary context, the one that PyTorch has too, so that tensors of either
can be read by the other.
"""

from __future__ import annotations

import ctypes
import weakref
from functools import lru_cache
from typing import Any

from glasshouse.errors import ExecutionError

OUT_OF_MEMORY = 2
_ADDRESS, _INT, _UINT, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_size_t
_MANY = ctypes.POINTER(ctypes.c_void_p)

# Every function with the types of its parameters; all give a status.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (_UINT,),
    "cuDriverGetVersion": (_ADDRESS,),
    "cuDeviceGetCount": (_ADDRESS,),
    "cuDeviceGet": (_ADDRESS, _INT),
    "cuDeviceGetName": (_ADDRESS, _INT, _INT),
    "cuDeviceGetAttribute": (_ADDRESS, _INT, _INT),
    "cuDevicePrimaryCtxRetain": (_ADDRESS, _INT),
    "cuCtxSetCurrent": (_ADDRESS,),
    "cuCtxSynchronize": (),
    "cuMemGetInfo_v2": (_ADDRESS, _ADDRESS),
    "cuMemAlloc_v2": (_ADDRESS, _SIZE),
    "cuMemFree_v2": (ctypes.c_uint64,),
    "cuMemHostAlloc": (_ADDRESS, _SIZE, _UINT),
    "cuMemFreeHost": (_ADDRESS,),
    "cuMemHostGetDevicePointer_v2": (_ADDRESS, _ADDRESS, _UINT),
    "cuMemcpyHtoDAsync_v2": (ctypes.c_uint64, _ADDRESS, _SIZE, _ADDRESS),
    "cuMemcpyDtoHAsync_v2": (_ADDRESS, ctypes.c_uint64, _SIZE, _ADDRESS),
    "cuMemcpyDtoDAsync_v2": (ctypes.c_uint64, ctypes.c_uint64, _SIZE, _ADDRESS),
    "cuMemsetD8Async": (ctypes.c_uint64, ctypes.c_ubyte, _SIZE, _ADDRESS),
    "cuMemsetD32Async": (ctypes.c_uint64, _UINT, _SIZE, _ADDRESS),
    "cuStreamCreate": (_ADDRESS, _UINT),
    "cuStreamSynchronize": (_ADDRESS,),
    "cuStreamDestroy_v2": (_ADDRESS,),
    "cuStreamBeginCapture_v2": (_ADDRESS, _INT),
    "cuStreamEndCapture": (_ADDRESS, _ADDRESS),
    "cuModuleLoadData": (_ADDRESS, _ADDRESS),
    "cuModuleUnload": (_ADDRESS,),
    "cuModuleGetFunction": (_ADDRESS, _ADDRESS, ctypes.c_char_p),
    "cuFuncSetAttribute": (_ADDRESS, _INT, _INT),
    "cuFuncGetAttribute": (_ADDRESS, _INT, _ADDRESS),
    "cuEventCreate": (_ADDRESS, _UINT),
    "cuEventRecord": (_ADDRESS, _ADDRESS),
    "cuEventElapsedTime": (_ADDRESS, _ADDRESS, _ADDRESS),
    "cuEventDestroy_v2": (_ADDRESS,),
    "cuGraphCreate": (_ADDRESS, _UINT),
    "cuGraphDestroy": (_ADDRESS,),
    "cuGraphAddKernelNode_v2": (_ADDRESS, _ADDRESS, _ADDRESS, _SIZE, _ADDRESS),
    "cuGraphAddDependencies_v2": (_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _SIZE),
    "cuGraphAddChildGraphNode": (_ADDRESS, _ADDRESS, _ADDRESS, _SIZE, _ADDRESS),
    "cuGraphInstantiateWithFlags": (_ADDRESS, _ADDRESS, ctypes.c_ulonglong),
    "cuGraphExecKernelNodeSetParams_v2": (_ADDRESS, _ADDRESS, _ADDRESS),
    "cuGraphExecChildGraphNodeSetParams": (_ADDRESS, _ADDRESS, _ADDRESS),
    "cuGraphExecDestroy": (_ADDRESS,),
    "cuGraphLaunch": (_ADDRESS, _ADDRESS),
    "cuLaunchKernel": (_ADDRESS, *[_UINT] * 7, _ADDRESS, _ADDRESS, _ADDRESS),
    "cuTensorMapEncodeTiled": (_ADDRESS, _INT, _UINT, _ADDRESS, *[_ADDRESS] * 4, *[_INT] * 4),
    "cuTensorMapEncodeIm2col": (
        _ADDRESS, _INT, _UINT, _ADDRESS, *[_ADDRESS] * 4, _UINT, _UINT, _ADDRESS, *[_INT] * 4,
    ),
}  # fmt: skip


_WHILE_CAPTURING = range(900, 910)  # CUDA_ERROR_STREAM_CAPTURE_...
_CAPTURED = "a compiled module is a CUDA graph itself: call it outside of torch.cuda.graph"


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS, second version."""

    _fields_ = (
        ("function", _ADDRESS),
        ("grid", _UINT * 3),
        ("block", _UINT * 3),
        ("shared", _UINT),
        ("parameters", _ADDRESS),
        ("extra", _ADDRESS),
        ("kernel", _ADDRESS),
        ("context", _ADDRESS),
    )


class EdgeData(ctypes.Structure):
    """CUgraphEdgeData; programmatic: from port 1, type 1."""

    _fields_ = (
        ("from_port", ctypes.c_ubyte),
        ("to_port", ctypes.c_ubyte),
        ("type", ctypes.c_ubyte),
        ("reserved", ctypes.c_ubyte * 5),
    )


class Driver:
    """Functions of `libcuda`; `call` raises what a status means."""

    def __init__(self, library: Any) -> None:
        self.library = library
        for name, types in _FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes = types
            function.restype = ctypes.c_int
            setattr(self, name, function)

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self, name)(*arguments)
        if status:
            raise self.refused(name, status)

    def refused(self, name: str, status: int) -> ExecutionError:
        """What it means that a function gave a status."""
        return ExecutionError(
            f"the CUDA driver refused {name}: {self.meaning(status)}",
            hint=_CAPTURED if status in _WHILE_CAPTURING else "",
        )

    def meaning(self, status: int) -> str:
        text = ctypes.c_char_p()
        try:
            self.library.cuGetErrorString(status, ctypes.byref(text))
        except AttributeError:
            return f"status {status}"
        return (text.value or b"unknown").decode() + f" (status {status})"

    def address(self, name: str, *arguments: Any) -> int:
        """What a function writes through its first parameter, an address."""
        made = ctypes.c_void_p()
        self.call(name, ctypes.byref(made), *arguments)
        return made.value or 0

    def number(self, name: str, *arguments: Any) -> int:
        made = ctypes.c_int()
        self.call(name, ctypes.byref(made), *arguments)
        return made.value


class Owned:
    """Handles of the driver that go with an object: noted when they are made, the last one freed
    first. What the process still holds when it ends goes with it."""

    def __init__(self, owner: Any, cuda: Driver, context: int) -> None:
        self._handles: list[tuple[str, int]] = []
        weakref.finalize(owner, _freed, cuda, context, self._handles).atexit = False

    def take(self, free: str, handle: int) -> int:
        """`free` is the function that frees the handle."""
        self._handles.append((free, handle))
        return handle


def _freed(cuda: Any, context: int, handles: list[tuple[str, int]]) -> None:
    """Statuses are not looked at: there is nobody to tell."""
    cuda.cuCtxSetCurrent(context)
    cuda.cuCtxSynchronize()
    for free, handle in reversed(handles):
        getattr(cuda, free)(handle)


def missing(why: str) -> ExecutionError:
    return ExecutionError(
        f"there is no GPU to run on: {why}",
        hint="compile with target='cpu' here; with target='cuda', arch='sm_90' a model is compiled "
        "for another machine, saved, and loaded there",
    )


@lru_cache(maxsize=1)
def driver() -> Driver:
    """The driver of this machine; it is an error where there is none, or no GPU."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise missing("libcuda.so.1, NVIDIA's driver, is not installed") from None
    try:
        made = Driver(library)
    except AttributeError as error:
        raise missing(f"the driver is too old ({error}); CUDA 12 or later is needed") from None
    status = made.cuInit(0)  # type: ignore[attr-defined]  # set from the table above
    if status:
        raise missing(made.meaning(status))
    if made.number("cuDeviceGetCount") == 0:
        raise missing("the driver sees no GPU")
    return made
