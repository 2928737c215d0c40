"""Other personalised and global methods, with the same interface as ``FedPlus``."""

from fedplus.baselines.apfl import APFL
from fedplus.baselines.ditto import Ditto
from fedplus.baselines.fedfomo import FedFomo
from fedplus.baselines.fedsplit import FedSplit
from fedplus.baselines.hypcluster import HypCluster
from fedplus.baselines.l2gd import L2GD
from fedplus.baselines.local_update import LocalUpdate
from fedplus.baselines.mapper import Mapper
from fedplus.baselines.per_fedavg import PerFedAvg
from fedplus.baselines.pfedme import PFedMe
from fedplus.baselines.scaffold import Scaffold

__all__ = [
    "APFL",
    "L2GD",
    "Ditto",
    "FedFomo",
    "FedSplit",
    "HypCluster",
    "LocalUpdate",
    "Mapper",
    "PFedMe",
    "PerFedAvg",
    "Scaffold",
]
