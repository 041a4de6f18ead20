"""The specs of the protocols, each in a folder of the same name as its implementation's."""
