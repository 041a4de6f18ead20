"""Groups that rebalance by themselves, as they are seen, judged by the contract."""
