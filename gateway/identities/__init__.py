"""Who there is: the file of identities and what the store keeps beside it, in force together."""
