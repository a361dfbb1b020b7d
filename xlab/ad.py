"""Arguments and results of `pullback.with_refs(...)` in place of cotangents."""

from xlab.transforms.vjp_refs import DidntWant as DidntWant
from xlab.transforms.vjp_refs import DontWant as DontWant
from xlab.transforms.vjp_refs import GradRef as GradRef
from xlab.transforms.vjp_refs import GradValue as GradValue

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue"]
