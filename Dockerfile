# Dragoman with the libraries of its own commands, PostgreSQL, RabbitMQ and STOMP:
#
#     make image
#     docker run --rm --publish 8080:8080 --volume dragoman:/var/lib/dragoman --stop-timeout 30 dragoman:0.1.0
#
# Settings come from DRAGOMAN_* in the environment, or from /etc/dragoman/dragoman.toml. With --read-only
# it wants --tmpfs /tmp. An archive in Parquet wants one extra more, and some 150 MB:
# --build-arg EXTRAS=client,discovery,ldap,negotiate,postgresql,rabbitmq,stomp,telemetry,archive; or EXTRAS=all.
# What is in it, with licences: /opt/dragoman/share/doc/dragoman.

# By digest, so that the same file makes the same image; RELEASING.md says how it is renewed.
ARG BASE=python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea

FROM ${BASE} AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
ARG EXTRAS=client,discovery,ldap,negotiate,postgresql,rabbitmq,stomp,telemetry
WORKDIR /src
COPY requirements requirements
# What is locked, with what Dragoman is built with beside it, not in the image.
RUN if [ "${EXTRAS}" = all ]; then sets="$(basename --suffix .txt requirements/*.txt | grep -vxE 'build|dev')"; \
    else sets="base $(echo "${EXTRAS}" | tr , ' ')"; fi \
    && echo ${sets} | tr ' ' , >/sets \
    && python -m venv --without-pip /opt/dragoman \
    && pip --python /opt/dragoman/bin/python install --require-hashes \
        $(for set in ${sets}; do echo "--requirement requirements/${set}.txt"; done) \
    && python -m venv --without-pip /opt/build \
    && pip --python /opt/build/bin/python install --require-hashes --requirement requirements/build.txt
COPY . .
RUN pip --python /opt/build/bin/python wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip --python /opt/dragoman/bin/python install --no-deps /wheels/*.whl
# Without a compiler Dragoman would be installed too, and be slow.
RUN /opt/dragoman/bin/python -I -c 'import sys; from filters import engine_note; sys.exit(engine_note())' \
    && /opt/dragoman/bin/python distributions/sbom.py --sets "$(cat /sets)" /opt/dragoman/share/doc/dragoman

FROM ${BASE}
ARG REVISION=
LABEL org.opencontainers.image.title="Dragoman" \
    org.opencontainers.image.description="A gateway between WS-Eventing and WS-Notification, in front of the message broker you have" \
    org.opencontainers.image.version="0.1.0" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.licenses="Apache-2.0"
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
