"""The model behind every viewer, without a screen: an index of a trace's rows, their details, and overviews."""
