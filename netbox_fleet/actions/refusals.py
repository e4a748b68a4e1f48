"""Why an action was refused, with the HTTP status and the code that REST answers."""


class RefusalError(Exception):
    """An action was refused; nothing was changed."""

    status = 400
    code = "refused"

    def __init__(self, detail: str, code: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        if code is not None:
            self.code = code


class WrongSerialError(RefusalError):
    """The typed disk serial is not the declared one."""

    status = 400
    code = "wrong-serial"


class NotPermittedError(RefusalError):
    """The person lacks the action's permission on this object."""

    status = 403
    code = "not-permitted"


class ConflictError(RefusalError):
    """The record is in no state for this action."""

    status = 409
    code = "conflict"
