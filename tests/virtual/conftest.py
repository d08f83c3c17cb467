from seqrt.testing.fixtures import anyio_backend

__all__ = ["anyio_backend"]
