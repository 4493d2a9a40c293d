"""The SOAP service and its two transports, HTTP and SOAP.TCP."""
