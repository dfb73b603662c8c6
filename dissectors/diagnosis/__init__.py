"""Find out how a frame that does not decode departs from its layout.

`diagnose` inspects one frame. `examine` returns the message as decoded under its diagnosis. It remembers the
departures of each peer, so that the next frame with the same departure is decoded without a search.
"""

from dissectors.diagnosis.departures_by_peer import KnownDepartures, examine
from dissectors.diagnosis.diagnose import diagnose
from dissectors.messages.diagnosis_result import Diagnosis, Rival, certain_diagnosis

__all__ = ["Diagnosis", "KnownDepartures", "Rival", "certain_diagnosis", "diagnose", "examine"]
