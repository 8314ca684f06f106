"""NVIDIA GPUs: kernel IR as CUDA C++, built by NVRTC, run through the CUDA driver."""
