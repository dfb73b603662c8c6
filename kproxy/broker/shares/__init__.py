"""Share groups (KIP-932): their members, the records that those have acquired, and what they acknowledge."""
