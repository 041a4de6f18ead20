"""What is seen of groups that rebalance by themselves, judged by the contract."""
