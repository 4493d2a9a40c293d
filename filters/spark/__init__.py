"""Filters over archives and workloads that are too large for one process, on Spark.

Each job reads, transforms, writes; a transform is a plain function from DataFrame to DataFrame::

    archive --files--> paths --notifications--> rows --matched--> rows with the filters they match

Spark is the extra ``spark``. Nothing is imported here, so that modules that do not need Spark can
be imported without it.
"""
