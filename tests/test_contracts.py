"""Every public estimator keeps every contract that is for it."""

import pytest

import taskdict as td
from contracts import CASES, CONTRACTS

PAIRS = [
    pytest.param(CASES[name], contract, id=f"{name}-{contract.__name__}")
    for name in CASES
    for contract, concerns in CONTRACTS.items()
    if concerns(CASES[name])
]


def test_every_public_estimator_is_here():
    public = {name for name in td.__all__ if hasattr(getattr(td, name), "get_params")}
    assert {type(case.estimator).__name__ for case in CASES.values()} == public


@pytest.mark.parametrize(("case", "contract"), PAIRS)
def test_contract(case, contract, tmp_path):
    contract(case, tmp_path)
