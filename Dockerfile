# Dragoman with the libraries of PostgreSQL, RabbitMQ and STOMP:
#
#     docker build --tag dragoman:0.1.0 .
#     docker run --rm --publish 8080:8080 --volume dragoman:/var/lib/dragoman --stop-timeout 30 dragoman:0.1.0
#
# Settings come from DRAGOMAN_* in the environment, or from /etc/dragoman/dragoman.toml. With --read-only
# it wants --tmpfs /tmp. An archive in Parquet wants one extra more, and some 150 MB:
# --build-arg EXTRAS=postgresql,rabbitmq,stomp,archive

ARG BASE=python:3.12-slim

FROM ${BASE} AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
# The compiled filter engine serves only the lxml that it was built for: one version for both, which
# pip is told twice, since where it looks for constraints of a build depends on its version.
RUN python -m venv --without-pip /opt/dragoman \
    && pip --python /opt/dragoman/bin/python install lxml \
    && pip --python /opt/dragoman/bin/python freeze | grep '^lxml==' >/lxml.txt
ENV PIP_CONSTRAINT=/lxml.txt PIP_BUILD_CONSTRAINT=/lxml.txt
ARG EXTRAS=postgresql,rabbitmq,stomp
WORKDIR /src
COPY . .
RUN pip --python /opt/dragoman/bin/python install ".[${EXTRAS}]"
# Without a compiler Dragoman would be installed too, and be slow.
RUN /opt/dragoman/bin/python -I -c 'import sys; from filters import engine_note; sys.exit(engine_note())'

FROM ${BASE}
COPY --from=build /opt/dragoman /opt/dragoman
RUN groupadd --gid 10001 dragoman \
    && useradd --uid 10001 --gid 10001 --home-dir /var/lib/dragoman --no-create-home \
        --shell /usr/sbin/nologin dragoman \
    && install --directory --owner 10001 --group 10001 --mode 0750 /var/lib/dragoman \
    && install --directory /etc/dragoman
ENV PATH=/opt/dragoman/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    DRAGOMAN_HOST=0.0.0.0 \
    DRAGOMAN_PORT=8080 \
    DRAGOMAN_DATA=/var/lib/dragoman
USER 10001:10001
VOLUME /var/lib/dragoman
WORKDIR /etc/dragoman
EXPOSE 8080
# The first answer comes when the store is migrated and what waits is read.
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=6 \
    CMD ["python", "-m", "gateway.alive"]
ENTRYPOINT ["dragoman"]
CMD ["serve"]
