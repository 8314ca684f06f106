"""`jittor.models.resnet`: ResNets under Jittor's names."""

from glasshouse.compat.missing import names_what_is_there
from glasshouse.nn.models.resnet import ResNet, resnet18, resnet34, resnet50

Resnet18 = resnet18
Resnet34 = resnet34
Resnet50 = resnet50

__all__ = ["ResNet", "Resnet18", "Resnet34", "Resnet50", "resnet18", "resnet34", "resnet50"]
__getattr__ = names_what_is_there("jittor.models.resnet", __all__)
