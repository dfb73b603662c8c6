"""The items, and the facts about each, that the terminal's views and the web application's tables both show.

Each module has `rows_in_view`, which returns the items of an overview that match the view's filter, and `facts`, which
returns pairs of a label and a text about one item; a text is empty if the fact is unknown. Texts are not escaped yet;
times follow the session's clock.
"""
