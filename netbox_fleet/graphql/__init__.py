"""GraphQL: the schema is assembled by NetBox once every plugin has loaded."""

from netbox_fleet.graphql.schema import FleetQuery

schema = [FleetQuery]
