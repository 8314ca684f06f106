"""How PyTorch's tracers (`torch.export`, `make_fx`) are brought to trace a model: what they refuse,
misread or keep is said differently to them here."""
