"""Builds of the cluster, kept in the cache: the programs of Kubernetes and the images of pods.

Debian packages supply the build tools and the contents of images. `windlass_image` follows the
steps of `deploy/Dockerfile`, without a container engine.
"""
