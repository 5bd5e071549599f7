"""AdaptDL: `from nbckpt.compat import adaptdl` in place of `import adaptdl.checkpoint, adaptdl.env`."""

from nbckpt.compat.adaptdl import checkpoint, env

__all__ = ["checkpoint", "env"]
