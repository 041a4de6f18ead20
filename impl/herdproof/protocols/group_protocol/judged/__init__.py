"""What is seen of groups of the group protocol, judged by the contract."""
