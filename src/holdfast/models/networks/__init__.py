"""Networks: one core, and a contract that any differentiable network can keep."""
