"""Sources: subscriptions that the gateway itself holds at producers of others, and what their
events become: publications like any other.

    held_leases   what happens to the lease that a source has, as a table; no clock, no socket
    sources       the sources of this gateway, in memory and in the store
    new_sources   what is said of a new source; `configured` has those of the settings
    requests      the requests to producers, written
    requester     sends them, and understands what is answered; `authentication` says who asks,
                  with passwords that `gateway.security.password_cipher` encrypts
    devices       what must be known of a camera of ONVIF before it is subscribed at
    exchanges     one operation at a producer, such as Subscribe, and what came of it
    lease_keeper  carries out what the leases say, when it is due
    pulling       fetches the events of those that do not send them
    operations    takes in what producers send

Publishers that register (WS-BrokeredNotification) are here, too, for those on demand are sources:

    registrations who registered, in memory and in the store; `registering` and `resources` are what
                  may be asked of them
    demand        whether a publisher's source is wanted: somebody subscribes to its topics
"""
