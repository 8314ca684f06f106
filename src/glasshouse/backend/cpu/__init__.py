"""The CPU target: C++ built with the compiler found on the machine."""
