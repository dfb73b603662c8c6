"""Find out how a frame that does not decode deviates from its layout.

`diagnose` inspects one frame. `examine` returns the message as decoded under its diagnosis. It remembers the
deviations of each peer, so that the next frame with the same deviation is decoded without a search.
"""

from dissectors.diagnosis.deviations_by_peer import KnownDeviations, examine
from dissectors.diagnosis.diagnose import diagnose
from dissectors.messages.diagnosis_result import Diagnosis, Rival, certain_diagnosis

__all__ = ["Diagnosis", "KnownDeviations", "Rival", "certain_diagnosis", "diagnose", "examine"]
