"""The console: the administration as pages for a browser, ``/console``."""
