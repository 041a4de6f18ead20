"""The protocols, each under the name that it has in the implementation and in the tests."""
