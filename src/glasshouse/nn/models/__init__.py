"""Models written with `nn`, with the parameter names of the checkpoints that people have."""

from glasshouse.nn.models.bert import Bert, BertConfig
from glasshouse.nn.models.gpt2 import GPT2, GPT2Config
from glasshouse.nn.models.llama import Llama, LlamaConfig
from glasshouse.nn.models.resnet import ResNet, resnet18, resnet34, resnet50
from glasshouse.nn.models.vit import ViT, ViTConfig

__all__ = [
    "Bert",
    "BertConfig",
    "GPT2",
    "GPT2Config",
    "Llama",
    "LlamaConfig",
    "ResNet",
    "ViT",
    "ViTConfig",
    "resnet18",
    "resnet34",
    "resnet50",
]
