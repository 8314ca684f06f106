"""The CUDA target: figures of an architecture, and what lowering may use there."""

from __future__ import annotations

import math
import re
from functools import partial

from glasshouse.backend.cuda.attention import ATTENTION, BY_FLAGS, attention
from glasshouse.backend.cuda.attention_grad import attention_grad
from glasshouse.backend.cuda.behind import ACROSS, BEHIND
from glasshouse.backend.cuda.conv import AXES, CONV_PRODUCT, conv
from glasshouse.backend.cuda.cublaslt import CUBLASLT, cublaslt
from glasshouse.backend.cuda.cudnn import CUDNN, CUDNN_TF32
from glasshouse.backend.cuda.cudnn_descriptors import cudnn
from glasshouse.backend.cuda.depthwise import depthwise, depthwise_of
from glasshouse.backend.cuda.extremes import extremes
from glasshouse.backend.cuda.float8 import float8_matmul
from glasshouse.backend.cuda.fourier import fourier, no_transform
from glasshouse.backend.cuda.groups import grouped
from glasshouse.backend.cuda.int8 import int8_conv, int8_matmul
from glasshouse.backend.cuda.library_conv import library_conv, library_variant
from glasshouse.backend.cuda.matmul import MOST_ROWS, matmul
from glasshouse.backend.cuda.nests import COLUMN_THREADS, COLUMNS, THREADS
from glasshouse.backend.cuda.norm_grad import norm_weights
from glasshouse.backend.cuda.order import order
from glasshouse.backend.cuda.places import placed
from glasshouse.backend.cuda.pools import places, pool
from glasshouse.backend.cuda.pools_grad import pool_grad
from glasshouse.backend.cuda.products import MEASURED as PRODUCTS
from glasshouse.backend.cuda.products import products
from glasshouse.backend.cuda.recurrent import recurrent
from glasshouse.backend.cuda.recurrent_grad import recurrent_grad
from glasshouse.backend.cuda.resize import resize
from glasshouse.backend.cuda.routine import most
from glasshouse.backend.cuda.routines import ROUTINES
from glasshouse.backend.cuda.row_parts import normed_product, product_and_parts
from glasshouse.backend.cuda.running import running
from glasshouse.backend.cuda.transposed import CONV_GRADIENT, conv_transpose, refused
from glasshouse.backend.cxx.spelling import FOLDS, SPELL
from glasshouse.backend.cxx.words import C_TYPE
from glasshouse.errors import Unsupported
from glasshouse.ir.dtype import bool_
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.target import Target, Teams, TileMaker, Vectors

TILES: dict[str, TileMaker] = {
    "adaptive_avg_pool": pool,
    "adaptive_max_pool": pool,
    "adaptive_max_pool_indices": places,
    "argmax": extremes,
    "argmin": extremes,
    "attention": attention,
    "attention_grad": attention_grad,
    "avg_pool": pool,
    "avg_pool_grad": pool_grad,
    "conv": conv,
    "conv_transpose": conv_transpose,
    "cummax": running,
    "cumprod": running,
    "cumsum": running,
    "embedding_bag": placed,
    "fft": fourier,
    "grouped_matmul": grouped,
    "layer_norm_weight_grad": norm_weights,
    "linear_recurrence": running,
    "logcumsumexp": running,
    "matmul": matmul,
    "max_pool": pool,
    "max_pool_grad": pool_grad,
    "max_pool_indices": places,
    "normed_product": normed_product,
    "product_and_parts": product_and_parts,
    "products": products,
    "recurrent": recurrent,
    "recurrent_grad": recurrent_grad,
    "resize": resize,
    "resize_grad": resize,
    "scatter": placed,
    "scatter_nd": placed,
    "sort": order,
    "take_grad": placed,
    "topk": order,
}

WEIGHT_GRAD = "conv_weight_grad"
_PYTHON = "no GPU kernel yet: PyTorch runs it on the GPU; without it the host does, between copies"
FALLBACKS = {
    "opaque": "its meaning is known only to whoever brought it",
    "cond": "Python chooses between its branches, which are compiled",
    "while_loop": "Python goes round; its test and its body are compiled",
    "scan": "Python goes round; its body is compiled",
    **dict.fromkeys(
        (
            WEIGHT_GRAD, "cholesky", "householder", "lu", "nth", "reflections", "row_order",
            "triangle_solve",
        ),
        _PYTHON,
    ),
}  # fmt: skip

CANDIDATES = 72
"""A kernel takes NVRTC 0.3 s of one processor: 25 problems of ResNet-50, all with their 6 variants,
kept 16 processors busy for 3.6 s of a first result of 6.2. Up to 12 problems are measured whole."""
MEASURED = frozenset(
    {
        ATTENTION,
        BY_FLAGS,
        CONV_GRADIENT,
        *PRODUCTS,
        *(f"matmul{lies}" for lies in ACROSS),
        *(op + behind for op in ("matmul", CONV_PRODUCT) for behind in BEHIND),
    }
)
"""Problems whose variants are timed where there is a GPU."""

OLDEST = 80
"""Compute capability, times ten: asynchronous copies and bfloat16 on tensor cores."""

HOPPER = 90
"""The one whose tensor cores have instructions of warpgroups; from it on, blocks form clusters."""

NORMED_ROWS = 128
"""Rows up to which products around a layer norm are its kernels: BERT-base for one sentence of 128
takes 227 us so at most, and 245 with kernels of norms; for two 296 and 284."""

# Everything that has a type stands in the epilogue of a tile; neighbours are found when rendering.
VECTORS = Vectors(
    elements=frozenset(C_TYPE), arithmetic=frozenset(C_TYPE), mask=bool_,
    on_masks=frozenset(SPELL), folds=frozenset(FOLDS),
)  # fmt: skip

# By architecture: multiprocessors, float32 operations and bytes a second, from datasheets.
_FIGURES = {
    80: (108, 19.5e12, 1.9e12), 86: (84, 30e12, 0.7e12), 89: (128, 80e12, 1.0e12),
    90: (132, 60e12, 4.3e12), 100: (148, 70e12, 7.5e12),
}  # fmt: skip


def capability(arch: str) -> int:
    """`sm_90` as 90; it is an error if it is no architecture, or one that is too old."""
    found = re.fullmatch(r"sm_(\d+)a?", arch)
    if found is None:
        raise Unsupported(f"there is no GPU architecture {arch!r}", hint="give one as 'sm_90'")
    number = int(found[1])
    if number < OLDEST:
        raise Unsupported(
            f"{arch} is too old: kernels need compute capability 8.0 (sm_80, Ampere) or later",
            hint="compile with target='cpu'",
        )
    return number


def _product(builder: KernelBuilder, node: Node, hopper: bool, library: bool) -> None:
    narrow = int8_matmul(builder, node, hopper) or (hopper and float8_matmul(builder, node))
    if not narrow:
        matmul(builder, node, hopper, library)


def _convolution(builder: KernelBuilder, node: Node, hopper: bool, library: bool) -> None:
    if not int8_conv(builder, node):
        conv(builder, node, hopper, library)


def _weight_gradient(builder: KernelBuilder, node: Node, library: bool) -> None:
    if depthwise_of(node) is not None:
        depthwise(builder, node)
    elif library:
        library_conv(builder, node)
    else:
        raise Unsupported("no gradient by weights without a library")


def _refused(node: Node, library: bool) -> bool:
    """Images of any size, of which 31 bits may not count the elements; transforms of lines that do
    not fit; and unless a library has them: transposed convolutions that are not whole phases,
    convolutions of images with three axes, and gradients by weights but depthwise ones."""
    name = node.op.name
    if name in ("conv", "resize", "resize_grad") and most(node.output.type.numel) >= 2**31:
        return True
    far = name == "conv" and node.inputs[0].type.rank - 2 > AXES
    by_weights = name == WEIGHT_GRAD and depthwise_of(node) is None
    if far or by_weights or refused(node):
        return not library or not library_variant(node, tf32=False)
    return no_transform(node)


def cuda_target(name: str, arch: str) -> Target:
    """The target of an architecture."""
    known = max(n for n in _FIGURES if n <= max(capability(arch), OLDEST))
    processors, operations, bandwidth = _FIGURES[known]
    convolves = name == "cuda" and cudnn() is not None
    return Target(
        name,
        cores=processors,
        operations=operations,
        bandwidth=bandwidth,
        launch=1.5e-6,
        low_precision=("float16", "bfloat16"),
        measured=MEASURED if name == "cuda" else frozenset(),  # an architecture has no clock
        candidates=CANDIDATES,
        elementwise=frozenset(SPELL),
        folds=frozenset(FOLDS),
        tiles={
            **TILES,
            "attention": partial(
                attention, hopper=capability(arch) == HOPPER, clusters=capability(arch) >= HOPPER
            ),
            "conv": partial(_convolution, hopper=capability(arch) == HOPPER, library=convolves),
            "conv_transpose": partial(
                conv_transpose, hopper=capability(arch) == HOPPER, library=convolves
            ),
            WEIGHT_GRAD: partial(_weight_gradient, library=convolves),
            "matmul": partial(
                _product,
                hopper=capability(arch) == HOPPER,
                library=name == "cuda" and cublaslt() is not None,
            ),
            "normed_product": partial(normed_product, hopper=capability(arch) == HOPPER),
            "product_and_parts": partial(product_and_parts, hopper=capability(arch) == HOPPER),
            "products": partial(products, hopper=capability(arch) == HOPPER),
            "recurrent": partial(recurrent, clusters=capability(arch) >= HOPPER),
            "recurrent_grad": partial(recurrent_grad, clusters=capability(arch) >= HOPPER),
        },
        needs=lambda tile: ROUTINES[tile.routine].needs(tile),
        vectors=VECTORS,
        widest=1,
        teams=Teams(2048 * processors, THREADS, COLUMNS, COLUMN_THREADS),
        fallbacks={n: why for n, why in FALLBACKS.items() if n != WEIGHT_GRAD},  # `refuses` says
        images=frozenset({"resize", "resize_grad"}),
        refuses=partial(_refused, library=convolves),
        spatial=3 if convolves else AXES,
        opaque=frozenset({CUBLASLT, CUDNN, CUDNN_TF32}),
        shifts=16,  # neighbours are moved together, and the copy engine fetches from there
        nests_beside=True,
        early_constants=True,
        # Norms of 128 x 768 took a tenth longer on an H200, BERT-base for one sentence 0.8 %.
        shifted_means=False,
        compares_places=True,
        normed_rows=NORMED_ROWS if capability(arch) == HOPPER else 0,
        joined_rows=math.inf if capability(arch) == HOPPER else MOST_ROWS,
    )
