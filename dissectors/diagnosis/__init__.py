"""Diagnosis: how a frame that does not read well departs from its layout.

`diagnose` looks at one frame; `examine` is what a conversation does with each: it remembers how its peers depart, so
that the next frame is read in that way at once.
"""

from dissectors.diagnosis.diagnose import Diagnosis, Rival, certain, diagnose
from dissectors.diagnosis.known_departures import KnownDepartures, examine

__all__ = ["Diagnosis", "KnownDepartures", "Rival", "certain", "diagnose", "examine"]
