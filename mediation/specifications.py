"""Every specification that is spoken here, in each of its versions."""

from collections.abc import Mapping

from mediation.administration import v1 as administration
from mediation.cloudevents import v1_0 as cloudevents
from mediation.eventing import management, messenger, v2004_08, v2011_03
from mediation.grid_events import v1 as grid_events
from mediation.mailboxes import make_connection, message_box
from mediation.metadata import exchange
from mediation.model.specification import ResourceProperties, Specification
from mediation.model.versions import Version
from mediation.notification import onvif_device, v1_0, v1_2, v1_3
from mediation.reliable_messaging import specification as reliable_messaging

SPECIFICATIONS: Mapping[Version, Specification] = {
    specification.version: specification
    for specification in (
        v2004_08.SPECIFICATION,
        v2011_03.SPECIFICATION,
        v1_3.SPECIFICATION,
        v1_2.SPECIFICATION,
        v1_0.SPECIFICATION,
        message_box.SPECIFICATION_2011,
        message_box.SPECIFICATION_2004,
        make_connection.SPECIFICATION,
        messenger.SPECIFICATION,
        management.SPECIFICATION,
        exchange.SPECIFICATION_2004_09,
        exchange.SPECIFICATION_2011_03,
        onvif_device.SPECIFICATION,
        cloudevents.SPECIFICATION,
        grid_events.SPECIFICATION,
        reliable_messaging.SPECIFICATION_1_1,
        reliable_messaging.SPECIFICATION_1_0,
        administration.SPECIFICATION,
    )
}
"""One row a version; refusals list them in this order."""


def properties_in(version: Version) -> ResourceProperties:
    """The resource properties that *version* defines.

    Raises:
        ValueError: It defines none.
    """
    properties = SPECIFICATIONS[version].properties
    if properties is None:
        raise ValueError(f"{version.value} has no resource properties")
    return properties
