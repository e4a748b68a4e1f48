"""NetBox's WSGI application with its static files: in the lab no web server stands in front."""

from pathlib import Path

from django.conf import settings
from netbox.wsgi import application as netbox_application
from whitenoise import WhiteNoise

application = WhiteNoise(netbox_application, root=Path(settings.STATIC_ROOT), prefix="static/")
