"""The family of a foreign op from its name: what the viewer colours by.

The families are those of `NodeRow.kind`. A name is cut into words ("aten.native_layer_norm" gives
native, layer, norm); the first family that knows one of them, or two that stand together, wins.
"""

from __future__ import annotations

import functools
import itertools
import re

WEIGHTS = "values of weights"
"""What a format that is no model without them may have to leave out."""

_FAMILIES: dict[str, str] = {
    "source": """
        input placeholder parameter constant const initializer weight variable param random rand
        randn normal uniform iota arange full zeros ones empty array range eye buffer lifted""",
    "quant": """
        quantize dequantize quantizelinear dequantizelinear dynamicquantizelinear fakequantize
        quantised quantized qdq observer""",
    "norm": """
        norm batchnorm layernorm groupnorm instancenorm rmsnorm normalization batchnormalization
        layernormalization instancenormalization groupnormalization lrn normalize
        lpnormalization""",
    "conv": """
        conv convolution conv1d conv2d conv3d convtranspose depthwise deconv deconvolution
        depthwiseconv2d convinteger qlinearconv""",
    "matmul": """
        matmul mm bmm addmm baddbmm gemm linear dot dotgeneral einsum batchmatmul matmulinteger
        qlinearmatmul attention sdpa tensordot fullyconnected multiheadattention mv outer lstm gru
        rnn dense innerproduct""",
    "reduction": """
        reduce sum mean softmax logsoftmax max min argmax argmin pool maxpool averagepool
        globalaveragepool avgpool any all prod amax amin var std cumsum topk sort logsumexp
        reducesum reducemean reducemax reducemin adaptive pooling pool2d argsort cumprod
        crossentropy loss""",
    "shape": """
        reshape view transpose permute squeeze unsqueeze expand flatten rearrange t broadcast alias
        unflatten identity detach shape size reinterpret expanddims movedim tile repeat strided""",
    "move": """
        concat cat concatenation concatenate split slice gather scatter copy clone pad stack unstack
        chunk select index embedding take roll getitem to cast convert contiguous pack unpack
        reindex transferto fetch gathernd scatternd where triu tril resize upsample lookup reverse
        flip unbind narrow memcpy load store tuple return output space depth""",
    "elementwise": """
        add sub mul div relu gelu silu sigmoid tanh exp log sqrt rsqrt pow neg abs erf sin cos floor
        ceil round clamp clip not and or xor equal eq ne lt gt le ge less greater subtract multiply
        divide maximum minimum negative negate hardswish hardtanh swish mish elu selu leaky
        leakyrelu prelu dropout reciprocal square binary unary ternary logistic power compare
        logical bitwise isnan isinf sign fmod remainder mod addcmul addcdiv softplus threshold atan
        tan asin acos sinh cosh squared difference elementwise fused rsub lerp exponential
        activation""",
    "opaque": "call custom delegate if loop scan while cond case func",
}
_FAMILY_OF = {word: f for f, words in reversed(_FAMILIES.items()) for word in words.split()}
_RANK = {family: rank for rank, family in enumerate(_FAMILIES)}
# Words of spellings and overloads, which say nothing about what an op does.
_NOISE = {
    "default", "tensor", "out", "int", "self", "aten", "prims", "ops", "torch", "native", "scalar",
    "stablehlo",
}  # fmt: skip


@functools.lru_cache(maxsize=65536)
def kind_of(op: str) -> str:
    """The family of an op by name; "opaque" when the name says nothing."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", op[:200])
    words = [w for w in re.split(r"[^A-Za-z0-9]+", spaced.lower()) if w and w not in _NOISE]
    words += [a + b for a, b in itertools.pairwise(words)]
    words += [re.sub(r"\d+d?$", "", w) for w in words]
    families = [_FAMILY_OF[w] for w in words if w in _FAMILY_OF]
    return min(families, key=_RANK.__getitem__, default="opaque")
