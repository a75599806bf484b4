"""A torch module as it came out of its training loop: what would erasures do to its promises?

Run it: ``pip install 'holdfast[torch]'``, then ``python examples/torch_module.py``
"""

import pandas as pd
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from torch import nn

import holdfast as hf

torch.manual_seed(0)
torch.set_num_threads(1)
X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X, y = X.iloc[:150, :5], y[:150]

# somebody's own training: Adam, a sum of logistic losses, l2/2 times the squared parameters
L2 = 3.0
scaler = StandardScaler().fit(X)
rows = torch.tensor(scaler.transform(X), dtype=torch.float32)
labels = torch.tensor(y.to_numpy(), dtype=torch.float32)
net = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
for _ in range(1500):
    optimizer.zero_grad()
    losses = nn.functional.binary_cross_entropy_with_logits(
        net(rows)[:, 0], labels, reduction="none"
    )
    squares = sum((parameter**2).sum() for parameter in net.parameters())
    (losses.sum() + L2 / 2 * squares).backward()
    optimizer.step()

# the same problem, said to Holdfast
model = hf.erasable(net, X, y, loss="logistic", l2=L2, preprocessing=scaler)
print(model)
print(f"polishing moved a score by {model.drift:.1e} standard deviations at most")
people = X[model.scores(X) < 0][:8]
given = hf.find_recourse(model, people, target=0.0, overshoot=0.02, random_state=0)

# an effect, predicted (the scaler kept) and refitted
deletions = model.deletions(given.points, preprocessing="kept")
predicted = deletions.effect([7, 11])
refitted = model.without([7, 11], refit_preprocessing=False)
true = model.scores(given.points) - refitted.scores(given.points)
print(deletions.how)
print(pd.DataFrame({"predicted": predicted, "refitted": true}).round(5).head(3).to_string())

result = hf.audit(
    model, given, target=0.0, max_deletions=1, search="greedy", draws=2, certify=False,
    random_state=0,
)  # fmt: skip
print(result.headline)
