"""The CUDA libraries that pip installs, loaded by their full path so that ``device="cuda"`` finds them.

``nvidia-cuda-nvrtc`` and ``nvidia-cublas`` put them into folders where no program looks. A library that is loaded under its own
name is found by that name afterwards.
"""

from __future__ import annotations

import ctypes
import pathlib
import sys

#: In this order: each needs those before it.
WANTED = ("libnvrtc-builtins.so", "libnvrtc.so", "libcublasLt.so", "libcublas.so")

_loaded: list[str] | None = None


def preload(device: object) -> list[str]:
    """Loads what this environment has, once; returns the paths."""
    global _loaded
    if device != "cuda":
        return []
    if _loaded is None:
        _loaded = []
        if sys.platform == "linux":
            files = [file for folder in _folders() for file in sorted(folder.glob("lib*.so*"))]
            for name in WANTED:
                for file in files:
                    if file.name == name or file.name.startswith(f"{name}."):
                        try:
                            ctypes.CDLL(str(file), ctypes.RTLD_GLOBAL)
                            _loaded.append(str(file))
                            break
                        except OSError:
                            continue
    return list(_loaded)


def _folders() -> list[pathlib.Path]:
    try:
        import nvidia
    except ImportError:
        return []
    return [folder for root in nvidia.__path__ for folder in sorted(pathlib.Path(root).glob("*/lib"))]
