"""What the terminal's views and the tables of the web application both show: which items, and facts about each.

A module has `rows_in_view`, the items of an overview that match the view's filter, and `facts` about one: pairs of a
label and a text, which is empty if it is not known. Texts are not escaped yet; times are those of the session's clock.
"""
