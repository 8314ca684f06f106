"""How TFLite's numbers read: names of operators, types, and the options of each operator.

The names and numbers are those of TFLite's schema, version 3. An operator's options are a table
whose fields are listed here by slot as `name:type`; `-` is a slot that is no longer used.
"""

from __future__ import annotations

_OPERATORS = """
    ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE
    EMBEDDING_LOOKUP FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D
    LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1
    RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM
    CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND
    SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
    BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM
    CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE
    SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW
    ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK
    REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR
    LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS
    WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE
    NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM
    BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG
    REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL
    CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL
    BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD
    UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR
    RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY
    STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE
    STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL
    STABLEHLO_REDUCE STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL
    STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER
    STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH
    STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE
    STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL
    STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE
    DILATE STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT
    STABLEHLO_CBRT
"""
OPERATORS: tuple[str, ...] = tuple(_OPERATORS.split())

_TYPES = """
    float32 float16 int32 uint8 int64 string bool int16 complex64 int8 float64 complex128 uint64
    resource variant uint32 uint16 int4 bfloat16
"""
TYPES: tuple[str, ...] = tuple(_TYPES.split())

_ACTIVATIONS = ("", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
_PADDINGS = ("SAME", "VALID")
_MIRROR = ("REFLECT", "SYMMETRIC")
ENUMS = {"activation": _ACTIVATIONS, "padding": _PADDINGS, "dtype": TYPES, "mirror": _MIRROR}

# Options by their number in the union; operators without options of interest are left out.
OPTIONS: dict[int, str] = {
    1: "padding:padding stride_w:i32 stride_h:i32 activation:activation dilation_w:i32:1 "
       "dilation_h:i32:1",
    2: "padding:padding stride_w:i32 stride_h:i32 depth_multiplier:i32 activation:activation "
       "dilation_w:i32:1 dilation_h:i32:1",
    4: "type:i8",
    5: "padding:padding stride_w:i32 stride_h:i32 filter_width:i32 filter_height:i32 "
       "activation:activation",
    6: "rank:i32 activation:activation",
    7: "activation:activation",
    8: "activation:activation weights_format:i8 keep_num_dims:bool",
    9: "beta:f32",
    10: "axis:i32 activation:activation",
    11: "activation:activation",
    12: "activation:activation",
    13: "radius:i32 bias:f32 alpha:f32 beta:f32",
    14: "activation:activation cell_clip:f32 proj_clip:f32 kernel_type:i8",
    15: "- - align_corners:bool half_pixel_centers:bool",
    16: "subgraph:u32",
    17: "new_shape:ints",
    18: "ngram_size:i32 max_skip_size:i32 include_all_ngrams:bool",
    19: "block_size:i32",
    20: "combiner:i8",
    21: "activation:activation",
    23: "axis:i32 batch_dims:i32",
    27: "keep_dims:bool",
    28: "activation:activation",
    29: "activation:activation",
    30: "squeeze_dims:ints",
    31: "time_major:bool activation:activation",
    32: "begin_mask:i32 end_mask:i32 ellipsis_mask:i32 new_axis_mask:i32 shrink_axis_mask:i32 "
        "offset:bool",
    35: "num_splits:i32",
    37: "in_type:dtype out_type:dtype",
    40: "output_type:dtype",
    49: "padding:padding stride_w:i32 stride_h:i32 activation:activation",
    50: "validate_indices:bool",
    55: "out_type:dtype",
    57: "output_type:dtype",
    58: "min:f32 max:f32 num_bits:i32 narrow_range:bool",
    59: "values_count:i32 axis:i32",
    61: "axis:i32",
    64: "num:i32 axis:i32",
    69: "activation:activation cell_clip:f32 proj_clip:f32 merge_outputs:bool time_major:bool",
    70: "time_major:bool activation:activation merge_outputs:bool",
    71: "activation:activation cell_clip:f32 proj_clip:f32 time_major:bool",
    74: "align_corners:bool half_pixel_centers:bool",
    75: "alpha:f32",
    77: "mode:mirror",
    79: "num_splits:i32",
    80: "idx_out_type:dtype",
    87: "seq_dim:i32 batch_dim:i32",
    92: "then_subgraph:i32 else_subgraph:i32",
    93: "cond_subgraph:i32 body_subgraph:i32",
    94: "block_size:i32",
    101: "adj_x:bool adj_y:bool",
    102: "exclusive:bool reverse:bool",
    103: "init_subgraph:i32",
    106: "padding:padding stride_d:i32 stride_w:i32 stride_h:i32 activation:activation "
         "dilation_d:i32:1 dilation_w:i32:1 dilation_h:i32:1",
    107: "table_id:i32 key_type:dtype value_type:dtype",
    111: "container:string shared_name:string",
    114: "seed:i64 seed2:i64",
    116: "approximate:bool",
}  # fmt: skip
