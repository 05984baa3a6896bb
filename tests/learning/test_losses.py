"""What losses say of themselves; test_gradients.py has their values and gradients."""

import pytest

from taskdict.losses import (
    NAMED,
    CodeLoss,
    LogisticLoss,
    Loss,
    SoftmaxLoss,
    SquaredLoss,
    is_log_likelihood,
    is_loss,
    is_quadratic,
    sees_codes,
)


class Own:
    def evaluate(self, y, scores):
        raise NotImplementedError


class OwnOfCodes:
    quadratic = False
    log_likelihood = True

    def evaluate_codes(self, y, scores, batch, weights):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("loss", "quadratic", "likelihood", "of_codes"),
    [
        (SquaredLoss(), True, False, False),
        (LogisticLoss(), False, True, False),
        (SoftmaxLoss(), False, True, False),
        (Own(), False, False, False),
        (OwnOfCodes(), False, True, True),
    ],
)
def test_attributes(loss, quadratic, likelihood, of_codes):
    assert is_loss(loss)
    assert (is_quadratic(loss), is_log_likelihood(loss), sees_codes(loss)) == (quadratic, likelihood, of_codes)
    assert isinstance(loss, CodeLoss if of_codes else Loss)


@pytest.mark.parametrize("value", [SquaredLoss, OwnOfCodes, "logistic", None, 3, len])
def test_no_losses(value):
    assert not is_loss(value)


def test_names():
    assert {name: type(loss) for name, loss in NAMED.items()} == {"logistic": LogisticLoss, "squared": SquaredLoss}
