"""Format times since the epoch without `datetime`."""

from __future__ import annotations

LAST_MS = 253_402_300_799_999  # the end of the year 9999

_MS_PER_DAY = 86_400_000


def utc(milliseconds: int) -> str:
    """Format a time in ms since the epoch as in RFC 3339, for the years 1970 to 9999."""
    days, ms_of_day = divmod(milliseconds, _MS_PER_DAY)
    # Howard Hinnant's civil_from_days: years start in March, so that the leap day is the last day of a year.
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    year = era * 400 + year_of_era + (month <= 2)
    seconds, ms = divmod(ms_of_day, 1000)
    return f"{year}-{month:02}-{day:02}T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}Z"
