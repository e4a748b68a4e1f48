"""The declarations feed: all that the service needs to know of each machine, by a change cursor."""
