"""``dragoman tenants``."""

from gateway.cli.commands import group, help_alone
from gateway.cli.resources import TENANTS, add_list, add_show

tenants = group("tenants", "List and show tenants, and what they use of their quotas.")
tenants.callback()(help_alone)

add_list(
    tenants,
    TENANTS,
    r"""List the tenants of a gateway beside the default one, with what they use of their quotas.

    A column has what is used, and the quota behind a slash; REFUSED are requests that were too
    much. The file of identities declares tenants and quotas.

    \b
    Examples:
      dragoman tenants list
      dragoman tenants list --output json | jq '.[] | select(.messages.refused > 0)'
    """,
)
add_show(
    tenants,
    TENANTS,
    r"""Show what a tenant uses of each of its quotas.

    \b
    Example:
      dragoman tenants show acme
    """,
)
