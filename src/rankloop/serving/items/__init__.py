"""The items of a ranker: the table, the items that a request names, and the features that items had before."""
