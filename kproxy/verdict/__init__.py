"""The verdict on what is wrong: findings by root cause, ranked, with their consequences below them.

Everything that shows causes uses it: reports, the summary of a live proxy, viewers, the page, the exit status.
"""
