"""WS-BaseNotification 1.2, the OASIS drafts of June 2004, over the drafts of WSRF of that month:
`SPECIFICATION`. Globus Toolkit 4 speaks it with WS-Addressing 2004/03, ServiceMix with 2003/03.
"""

from filters import Topic, dialects
from mediation import names
from mediation.model.requests import Operation
from mediation.model.specification import Service
from mediation.model.versions import Version, Wsa
from mediation.notification.drafts import Draft, draft_offers, draft_specification
from mediation.notification.topics import topic_element
from mediation.resources.wsrf import WSRF_2004_06

DIALECTS = {
    dialects.TOPIC_SIMPLE: dialects.TOPIC_SIMPLE_1_2,
    dialects.TOPIC_CONCRETE: dialects.TOPIC_CONCRETE_1_2,
    dialects.TOPIC_FULL: dialects.TOPIC_FULL_1_2,
}


def _write_topic(name: str, topic: Topic, dialect: str | None, declarations: str) -> str:
    return topic_element(name, topic, dialect, declarations, DIALECTS)


DRAFT = Draft(
    namespace=names.WSN_2004_06,
    brokered=names.WSN_BR_2004_06,
    actions=names.WSN_2004_06_ACTIONS,
    wsrf=WSRF_2004_06,
    requests={
        operation.value: operation
        for operation in (
            Operation.SUBSCRIBE,
            Operation.GET_CURRENT_MESSAGE,
            Operation.PAUSE,
            Operation.RESUME,
            Operation.PUBLISH,
        )
    },
    subscription_key=f"{{{names.GLOBUS_CORE}}}SubscriptionKey",
    write_topic=_write_topic,
    spelled=DIALECTS,
    notify_actions=(f"{names.WSN_2004_06_ACTIONS_SHORT}Notify",),
)

SPECIFICATION = draft_specification(
    DRAFT,
    Version.WSN_1_2,
    "WS-BaseNotification 1.2",
    wsa=Wsa.V2004_03,
    services=(
        Service(
            "wsn12",
            "WSNotification12",
            (
                "addressing-2003-03",
                "bf-2004-06",
                "rp-2004-06",
                "rl-2004-06",
                "b-2004-06",
                "br-2004-06",
            ),
            draft_offers(DRAFT, "12"),
            dict.fromkeys(
                (
                    names.WSN_2004_06,
                    names.WSN_BR_2004_06,
                    names.WSRF_RP_2004_06,
                    names.WSRF_RL_2004_06,
                ),
                Wsa.V2003_03.fault_action,
            ),
        ),
    ),
)
