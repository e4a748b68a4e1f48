"""Doing something as a person in a request, so that the change log sees it."""

import uuid

from django.test import RequestFactory
from netbox.context_managers import event_tracking

from .builders import a_user


class logged:  # noqa: N801 - reads as a verb where it is used
    """A request of a user, as a context; gives the user."""

    def __init__(self, user=None, path="/"):
        self.request = RequestFactory().get(path)
        self.request.id = uuid.uuid4()
        self.request.user = user or a_user(superuser=True)

    def __enter__(self):
        self._tracking = event_tracking(self.request)
        self._tracking.__enter__()
        return self.request.user

    def __exit__(self, *problem):
        return self._tracking.__exit__(*problem)
