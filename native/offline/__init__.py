"""docker/offline-bundle: both twins for a machine that has CUDA 13, an NVIDIA GPU and no network.

bundle.py and archive.py make the bundle, on any Python 3.9 or newer. The shell script unpack and finish.py are
part of the bundle and run on the target; finish.py runs on a twin's own interpreter.
"""
