"""A stand-in NVIDIA driver: what NVML, CUDA programs and MPS would show, in one shared file."""
