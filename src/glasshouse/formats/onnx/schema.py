"""The messages of ONNX that a viewer needs, by the numbers of their fields (onnx.proto, IR 13)."""

from __future__ import annotations

from glasshouse.formats.protobuf import schemas

MESSAGES = schemas(
    {
        "ModelProto": """1 ir_version int, 2 producer_name text, 3 producer_version text,
            4 domain text, 5 model_version int, 6 doc_string text, 7 graph GraphProto,
            8 opset_import OperatorSetIdProto*, 14 metadata_props StringStringEntryProto*,
            25 functions FunctionProto*""",
        "OperatorSetIdProto": "1 domain text, 2 version int",
        "StringStringEntryProto": "1 key text, 2 value text",
        "GraphProto": """1 node NodeProto*, 2 name text, 5 initializer TensorProto*,
            10 doc_string text, 11 input ValueInfoProto*, 12 output ValueInfoProto*,
            13 value_info ValueInfoProto*, 15 sparse_initializer SparseTensorProto*""",
        "FunctionProto": """1 name text, 4 input text*, 5 output text*, 7 node NodeProto*,
            8 doc_string text, 10 domain text""",
        "NodeProto": """1 input text*, 2 output text*, 3 name text, 4 op_type text,
            5 attribute AttributeProto*, 6 doc_string text, 7 domain text,
            9 metadata_props StringStringEntryProto*""",
        "AttributeProto": """1 name text, 2 f float, 3 i int, 4 s bytes, 5 t TensorProto,
            6 g GraphProto, 7 floats float*, 8 ints int*, 9 strings bytes*,
            10 tensors TensorProto*, 11 graphs GraphProto*, 14 tp TypeProto, 20 type int,
            21 ref_attr_name text""",
        "TensorProto": """1 dims int*, 2 data_type int, 4 float_data float*, 5 int32_data int*,
            7 int64_data int*, 8 name text, 9 raw_data bytes, 10 double_data double*,
            13 external_data StringStringEntryProto*, 14 data_location int""",
        "SparseTensorProto": "1 values TensorProto, 3 dims int*",
        "ValueInfoProto": "1 name text, 2 type TypeProto",
        "TypeProto": """1 tensor_type TensorType, 4 sequence_type Inner, 5 map_type Map,
            8 sparse_tensor_type TensorType, 9 optional_type Inner""",
        "TensorType": "1 elem_type int, 2 shape TensorShapeProto",
        "Inner": "1 elem_type TypeProto",
        "Map": "1 key_type int, 2 value_type TypeProto",
        "TensorShapeProto": "1 dim Dimension*",
        "Dimension": "1 dim_value int, 2 dim_param text",
    }
)
MODEL = MESSAGES["ModelProto"]
