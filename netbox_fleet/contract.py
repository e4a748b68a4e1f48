"""Which versions of the contract with fleetd this plugin serves: what `declarations/` and `reports/` hold and mean.

fleetd names in a header the version that it speaks, and believes no answer that does not name the same one. `NEWEST` grows
with every change that fleetd before it would misread, `OLDEST` when what such a fleetd says is not understood any more.
"""

from rest_framework import status
from rest_framework.exceptions import APIException
from rest_framework.views import APIView

HEADER = "Fleet-Contract"
OLDEST, NEWEST = 1, 1


class ContractError(APIException):
    """fleetd speaks a version that this plugin does not serve: nothing is told or taken."""

    status_code = status.HTTP_409_CONFLICT

    def __init__(self, spoken):
        older = "fleetd" if spoken.isdigit() and int(spoken[:9]) < OLDEST else "netbox_fleet"
        super().__init__(
            {
                "detail": f"This netbox_fleet serves contract {OLDEST} to {NEWEST}, and fleetd speaks {spoken[:9]!r}: "
                f"{older} is too old. Bring both to the same version, the plugin first.",
                "code": "contract",
            }
        )


class ContractView(APIView):
    """A view that fleetd calls. Who names no contract reads for himself, and is served."""

    def initial(self, request, *args, **kwargs):
        super().initial(request, *args, **kwargs)
        spoken = request.headers.get(HEADER)
        if spoken is not None and not _served(spoken):
            raise ContractError(spoken)

    def finalize_response(self, request, response, *args, **kwargs):
        spoken = request.headers.get(HEADER)
        response[HEADER] = spoken if _served(spoken) else NEWEST
        return super().finalize_response(request, response, *args, **kwargs)


def _served(spoken):
    return spoken in {str(served) for served in range(OLDEST, NEWEST + 1)}
