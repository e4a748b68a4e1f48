"""Who may call an action: the action itself asks for its own permission, so no `add` right is demanded."""

from django.conf import settings
from netbox.api.authentication import TokenPermissions
from rest_framework.permissions import SAFE_METHODS
from users.models import Token


class ActionPermission(TokenPermissions):
    """A signed-in user whose token, if one is used, may write."""

    def has_permission(self, request, view):
        if not request.user or not request.user.is_authenticated:
            return False
        if isinstance(request.auth, Token):
            return request.method in SAFE_METHODS or request.auth.write_enabled
        return True

    def has_object_permission(self, request, view, obj):
        return self.has_permission(request, view)


class SignedInReader(ActionPermission):
    """A signed-in user; what they see is restricted by the queryset."""

    def __init__(self):
        super().__init__()
        self.authenticated_users_only = settings.LOGIN_REQUIRED
