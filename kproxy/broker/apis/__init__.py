"""The broker's APIs, one file each; the module docstrings describe behaviour, versions and omissions."""
