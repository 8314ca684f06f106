"""TorchScript archives: the program text and the pickled attributes as a graph; nothing is run."""
