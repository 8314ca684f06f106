"""The messages of Core ML that a viewer needs, by the numbers of their fields (specification 9)."""

from __future__ import annotations

from glasshouse.formats.protobuf import schemas

# Kinds of layers whose parameters are looked into; of all others the name says enough.
_KNOWN_LAYERS = {
    "convolution": "Convolution", "pooling": "Pooling", "activation": "Activation",
    "innerProduct": "InnerProduct", "branch": "Branch", "loop": "Loop",
}  # fmt: skip
_LAYERS = """
    100 convolution, 120 pooling, 130 activation, 140 innerProduct, 150 embedding, 160 batchnorm,
    165 mvn, 170 l2normalize, 175 softmax, 180 lrn, 190 crop, 200 padding, 210 upsample,
    211 resizeBilinear, 212 cropResize, 220 unary, 230 add, 231 multiply, 240 average, 245 scale,
    250 bias, 260 max, 261 min, 270 dot, 280 reduce, 290 loadConstant, 300 reshape, 301 flatten,
    310 permute, 320 concat, 330 split, 340 sequenceRepeat, 345 reorganizeData, 350 slice,
    400 simpleRecurrent, 410 gru, 420 uniDirectionalLSTM, 430 biDirectionalLSTM, 500 custom,
    600 copy, 605 branch, 615 loop, 620 loopBreak, 625 loopContinue, 635 rangeStatic,
    640 rangeDynamic, 660 clip, 665 ceil, 670 floor, 680 sign, 685 round, 700 exp2, 710 sin,
    715 cos, 720 tan, 730 asin, 735 acos, 740 atan, 750 sinh, 755 cosh, 760 tanh, 770 asinh,
    775 acosh, 780 atanh, 790 erf, 795 gelu, 815 equal, 820 notEqual, 825 lessThan, 827 lessEqual,
    830 greaterThan, 832 greaterEqual, 840 logicalOr, 845 logicalXor, 850 logicalNot,
    855 logicalAnd, 865 modBroadcastable, 870 minBroadcastable, 875 maxBroadcastable,
    880 addBroadcastable, 885 powBroadcastable, 890 divideBroadcastable, 895 floorDivBroadcastable,
    900 multiplyBroadcastable, 905 subtractBroadcastable, 920 tile, 925 stack, 930 gather,
    935 scatter, 940 gatherND, 945 scatterND, 950 softmaxND, 952 gatherAlongAxis,
    954 scatterAlongAxis, 960 reverse, 965 reverseSeq, 975 splitND, 980 concatND, 985 transpose,
    995 sliceStatic, 1000 sliceDynamic, 1005 slidingWindows, 1015 topK, 1020 argMin, 1025 argMax,
    1040 embeddingND, 1045 batchedMatmul, 1065 getShape, 1070 loadConstantND, 1080 fillLike,
    1085 fillStatic, 1090 fillDynamic, 1100 broadcastToLike, 1105 broadcastToStatic,
    1110 broadcastToDynamic, 1120 squeeze, 1125 expandDims, 1130 flattenTo2D, 1135 reshapeLike,
    1140 reshapeStatic, 1145 reshapeDynamic, 1150 rankPreservingReshape, 1155 constantPad,
    1170 randomNormalLike, 1175 randomNormalStatic, 1180 randomNormalDynamic,
    1190 randomUniformLike, 1195 randomUniformStatic, 1200 randomUniformDynamic,
    1210 randomBernoulliLike, 1215 randomBernoulliStatic, 1220 randomBernoulliDynamic,
    1230 categoricalDistribution, 1250 reduceL1, 1255 reduceL2, 1260 reduceMax, 1265 reduceMin,
    1270 reduceSum, 1275 reduceProd, 1280 reduceMean, 1285 reduceLogSum, 1290 reduceSumSquare,
    1295 reduceLogSumExp, 1313 whereNonZero, 1315 matrixBandPart, 1320 lowerTriangular,
    1325 upperTriangular, 1330 whereBroadcastable, 1350 layerNormalization,
    1400 NonMaximumSuppression, 1450 oneHot, 1455 cumSum, 1460 clampedReLU, 1461 argSort,
    1465 pooling3d, 1466 globalPooling3d, 1470 sliceBySize, 1471 convolution3d"""
LAYERS = tuple(part.split()[1] for part in _LAYERS.split(","))
"""What a layer can be: one of these fields is there."""

_MODELS = """
    200 pipelineClassifier Wrapped, 201 pipelineRegressor Wrapped, 202 pipeline Pipeline,
    300 glmRegressor Other, 301 supportVectorRegressor Other, 302 treeEnsembleRegressor Other,
    303 neuralNetworkRegressor Network, 304 bayesianProbitRegressor Other, 400 glmClassifier Other,
    401 supportVectorClassifier Other, 402 treeEnsembleClassifier Other,
    403 neuralNetworkClassifier Network, 404 kNearestNeighborsClassifier Other,
    500 neuralNetwork Network, 501 itemSimilarityRecommender Other, 502 mlProgram Program,
    555 customModel Other, 556 linkedModel Other, 560 classConfidenceThresholding Other,
    600 oneHotEncoder Other, 601 imputer Other, 602 featureVectorizer Other,
    603 dictVectorizer Other, 604 scaler Other, 606 categoricalMapping Other, 607 normalizer Other,
    609 arrayFeatureExtractor Other, 610 nonMaximumSuppression Other, 900 identity Other,
    2000 textClassifier Other, 2001 wordTagger Other, 2002 visionFeaturePrint Other,
    2003 soundAnalysisPreprocessing Other, 2004 gazetteer Other, 2005 wordEmbedding Other,
    2006 audioFeaturePrint Other, 3000 serializedModel Other"""
MODELS = tuple(part.split()[1] for part in _MODELS.split(","))
"""What a model can be: one of these fields is there."""

_ACTIVATIONS = """
    5 linear, 10 ReLU, 15 leakyReLU, 20 thresholdedReLU, 25 PReLU, 30 tanh, 31 scaledTanh,
    40 sigmoid, 41 sigmoidHard, 50 ELU, 60 softsign, 70 softplus, 71 parametricSoftplus"""
ACTIVATIONS = tuple(part.split()[1] for part in _ACTIVATIONS.split(","))


def _kinds(listed: str) -> str:
    return ", ".join(
        f"{part.strip()} {_KNOWN_LAYERS.get(part.split()[1], 'Other')}"
        for part in listed.split(",")
    )


_MESSAGES = schemas(
    {
        "Other": "536870911 nothing bool",  # its fields are passed over
        "Model": f"1 specificationVersion int, 2 description Description, {_MODELS}",
        "Description": """1 input Feature*, 10 output Feature*, 11 predictedFeatureName text,
            100 metadata Metadata""",
        "Feature": "1 name text, 2 shortDescription text, 3 type FeatureType",
        "FeatureType": """1 int64Type Other, 2 doubleType Other, 3 stringType Other,
            4 imageType Image, 5 multiArrayType Array, 6 dictionaryType Other,
            7 sequenceType Other, 8 stateType Other""",
        "Image": "1 width int, 2 height int, 3 colorSpace int",
        "Array": "1 shape int*, 2 dataType int",
        "Metadata": """1 shortDescription text, 2 versionString text, 3 author text, 4 license text,
            100 userDefined TextEntry*""",
        "TextEntry": "1 key text, 2 value text",
        "Wrapped": "1 pipeline Pipeline",
        "Pipeline": "1 models Model*, 2 names text*",
        "Network": "1 layers Layer*",
        "Layer": f"""1 name text, 2 input text*, 3 output text*, 4 inputTensor Shape*,
            5 outputTensor Shape*, {_kinds(_LAYERS)}""",
        "Shape": "1 rank int, 2 dimValue int*",
        "Convolution": """1 outputChannels int, 2 kernelChannels int, 10 nGroups int,
            20 kernelSize int*, 30 stride int*, 40 dilationFactor int*, 60 isDeconvolution bool,
            70 hasBias bool, 90 weights Weights, 91 bias Weights""",
        "Pooling": "1 type int, 10 kernelSize int*, 20 stride int*, 60 globalPooling bool",
        "InnerProduct": """1 inputChannels int, 2 outputChannels int, 10 hasBias bool,
            20 weights Weights, 21 bias Weights""",
        "Weights": "1 floatValue bytes, 2 float16Value bytes, 30 rawValue bytes",
        "Activation": _kinds(_ACTIVATIONS),
        "Branch": "1 ifBranch Network, 2 elseBranch Network",
        "Loop": "1 maxLoopIterations int, 3 conditionNetwork Network, 4 bodyNetwork Network",
        "Program": "1 version int, 2 functions FunctionEntry*",
        "FunctionEntry": "1 key text, 2 value Function",
        "Function": "1 inputs Named*, 2 opset text, 3 block_specializations BlockEntry*",
        "BlockEntry": "1 key text, 2 value Block",
        "Block": "1 inputs Named*, 2 outputs text*, 3 operations Operation*",
        "Operation": """1 type text, 2 inputs ArgumentEntry*, 3 outputs Named*, 4 blocks Block*,
            5 attributes ValueEntry*""",
        "ArgumentEntry": "1 key text, 2 value Argument",
        "Argument": "1 arguments Binding*",
        "Binding": "1 name text, 2 value Value",
        "ValueEntry": "1 key text, 2 value Value",
        "Named": "1 name text, 2 type ValueType",
        "ValueType": """1 tensorType TensorType, 2 listType Other, 3 tupleType Other,
            4 dictionaryType Other, 5 stateType Other""",
        "TensorType": "1 dataType int, 2 rank int, 3 dimensions Dimension*",
        "Dimension": "1 constant Constant, 2 unknown Other",
        "Constant": "1 size int",
        "Value": "2 type ValueType, 3 immediateValue Immediate, 5 blobFileValue Blob",
        "Immediate": "1 tensor Tensor, 2 tuple Other, 3 list Other, 4 dictionary Other",
        "Blob": "1 fileName text, 2 offset int",
        "Tensor": """1 floats Floats, 2 ints Ints, 3 bools Bools, 4 strings Strings,
            5 longInts Ints, 6 doubles Doubles, 7 bytes Other""",
        "Floats": "1 values float*",
        "Doubles": "1 values double*",
        "Ints": "1 values int*",
        "Bools": "1 values bool*",
        "Strings": "1 values text*",
    }
)
MODEL = _MESSAGES["Model"]
