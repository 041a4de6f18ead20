# `herdproof coordinator` and consumers in a container: docs/operating.md says how it is built and run.
# The build's context is a folder with herdproof's wheel. Libraries whose wheels lie beside it are
# taken from there, the others from the index that pip is told of (PIP_INDEX_URL), if from any.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
RUN apt-get update \
 && apt-get install --yes --no-install-recommends python3 python3-venv \
 && rm -rf /var/lib/apt/lists/*
COPY *.whl /tmp/wheels/
ARG PIP_INDEX_URL PIP_NO_INDEX PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# What these two commands import; provers, Spark and the rest of what herdproof requires stay out.
ARG IMPORTED="confluent-kafka google-re2 kazoo msgspec prometheus-client pydantic rich typer"
RUN python3 -m venv /opt/herdproof \
 && /opt/herdproof/bin/pip install --no-deps --no-index /tmp/wheels/herdproof-*.whl \
 && /opt/herdproof/bin/python -c "import re; from importlib.metadata import requires; \
print(*(need for need in requires('herdproof') \
        if re.split('[^a-z0-9-]', need)[0] in '${IMPORTED}'.split()), sep='\n')" \
    > /tmp/wheels/needed.txt \
 && /opt/herdproof/bin/pip install --find-links /tmp/wheels --requirement /tmp/wheels/needed.txt \
 && rm -r /tmp/wheels
RUN useradd --system --no-create-home --shell /usr/sbin/nologin herdproof
USER herdproof
# Every option of a command is told by HERDPROOF_[command]_[option]; outside are, as a rule, others
# than localhost. Where consumers reach this container, only HERDPROOF_COORDINATOR_ADVERTISED_HOST
# can say.
ENV PATH=/opt/herdproof/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    HERDPROOF_COORDINATOR_HOST=0.0.0.0 \
    HERDPROOF_COORDINATOR_METRICS_HOST=0.0.0.0 HERDPROOF_COORDINATOR_METRICS_PORT=9193 \
    HERDPROOF_CONSUME_METRICS_PORT=9193
EXPOSE 9192 9193
STOPSIGNAL SIGTERM
# 503 while its loop does not turn: start it again. Whether it can be used says /ready.
HEALTHCHECK --interval=10s --timeout=5s --start-period=15s CMD \
  ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:9193/healthz')"]
ENTRYPOINT ["herdproof"]
CMD ["coordinator"]
