"""Topic discovery in the gateway: a node that makes topics unique, signs them, keeps what their
creators advertise, and answers who looks for topics. docs/discovery.md has how to run one."""
