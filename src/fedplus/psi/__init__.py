"""Regularisers ψ = Ψ/σ of the personal part v_k of each model. ``base`` says how to write another."""

from fedplus.psi.anchor import Anchor
from fedplus.psi.base import AbstractPsi, Custom
from fedplus.psi.blocks import Blocks
from fedplus.psi.l1 import L1
from fedplus.psi.l2 import L2
from fedplus.psi.quadratic import Quadratic
from fedplus.psi.zero import Zero

__all__ = ["L1", "L2", "AbstractPsi", "Anchor", "Blocks", "Custom", "Quadratic", "Zero"]
