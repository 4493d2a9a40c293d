"""The port types of WS-BaseNotification 1.3, and the actions of their messages."""

from mediation import names
from mediation.model.requests import Operation

NAMESPACE = names.WSN_1_3
NOTIFY_ACTION = names.WSN_1_3_ACTIONS + "NotificationConsumer/Notify"
PORT_TYPES = {
    Operation.SUBSCRIBE: "NotificationProducer",
    Operation.GET_CURRENT_MESSAGE: "NotificationProducer",
    Operation.RENEW: "SubscriptionManager",
    Operation.UNSUBSCRIBE: "SubscriptionManager",
    Operation.GET_STATUS: "SubscriptionManager",
    Operation.PAUSE: "PausableSubscriptionManager",
    Operation.RESUME: "PausableSubscriptionManager",
    Operation.CREATE_PULL_POINT: "CreatePullPoint",
    Operation.GET_MESSAGES: "PullPoint",
    Operation.DESTROY_PULL_POINT: "PullPoint",
}


def action_of(port_type: str, operation: Operation, message: str = "Request") -> str:
    """Return the action of a message of *operation*, as *port_type* has it."""
    return f"{names.WSN_1_3_ACTIONS}{port_type}/{operation.value}{message}"
