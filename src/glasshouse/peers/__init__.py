"""Other compilers in the same glass: what they made of a model, and its times, as a recording."""
