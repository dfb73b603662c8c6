"""The verdict on what is wrong: findings grouped by root cause and ranked, with their consequences below them.

Everything that shows causes uses it: reports, the summary of a live proxy, viewers, the page and the exit status.
"""
