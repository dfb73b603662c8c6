"""Why a group stands still, since when, and who keeps whom waiting: for people who have a consumer that hangs.

`members` and `waits` say what stands still at a time, with one member and with the whole group. `endings` has them say
it just before it is over, and keeps that; `telling` puts together what lasts and what is over.
"""
