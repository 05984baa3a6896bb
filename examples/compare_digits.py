"""Compare task-driven and unsupervised dictionaries with scikit-learn's classifiers on its digits.

    python examples/compare_digits.py [seed ...]

Prints the number of wrong test digits of each method, for one random split (seed 0) or for each of the given seeds.
"""

import sys
import warnings

from sklearn.datasets import load_digits
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import taskdict as td

warnings.simplefilter("ignore", ConvergenceWarning)  # of scikit-learn's coordinate descent
X, y = load_digits(return_X_y=True)
X = td.UnitNorm().fit_transform(X)


def methods(seed: int) -> dict:
    """Return the classifiers by name; all dictionaries but the last have 30 atoms and λ1 = 0.15."""
    linear = LogisticRegression(C=100.0, max_iter=1000)
    theirs = MiniBatchDictionaryLearning(
        30, alpha=0.15, transform_algorithm="lasso_cd", transform_alpha=0.15, random_state=seed
    )
    return {
        "LogisticRegression on pixels": linear,
        "SVC()": SVC(),
        "KNeighborsClassifier(3)": KNeighborsClassifier(3),
        "MiniBatchDictionaryLearning, then LogisticRegression": make_pipeline(theirs, linear),
        "td.DictionaryLearning, then LogisticRegression": make_pipeline(
            td.DictionaryLearning(30, lambda1=0.15, random_state=seed), linear
        ),
        "td.TaskDrivenClassifier, 30 atoms": td.TaskDrivenClassifier(30, lambda1=0.15, random_state=seed),
        "td.TaskDrivenClassifier()": td.TaskDrivenClassifier(random_state=seed),
    }


def errors(seed: int) -> dict[str, int]:
    """Return the number of wrong test digits of each method, on one split into halves."""
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
    return {name: int((m.fit(train, y_train).predict(test) != y_test).sum()) for name, m in methods(seed).items()}


seeds = [int(seed) for seed in sys.argv[1:]] or [0]
found = [errors(seed) for seed in seeds]
print(f"| wrong of {len(y) - len(y) // 2} test digits | {' | '.join(f'seed {seed}' for seed in seeds)} |")
print(f"| --- | {' | '.join('---:' for _ in seeds)} |")
for name in found[0]:
    print(f"| {name} | {' | '.join(str(row[name]) for row in found)} |")
