"""Diagnosis: how a frame that does not read well departs from its layout.

`diagnose` looks at one frame. `examine` returns the message as it reads under its diagnosis; it remembers how peers
depart, so that the next frame is read in that way at once.
"""

from dissectors.diagnosis.departures_by_peer import KnownDepartures, examine
from dissectors.diagnosis.diagnose import diagnose
from dissectors.messages.diagnosis_result import Diagnosis, Rival, certain

__all__ = ["Diagnosis", "KnownDepartures", "Rival", "certain", "diagnose", "examine"]
