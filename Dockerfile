# docker build -t penstock . && docker run --rm -v "$PWD:/work" penstock inspect /work/logs
FROM python:3.12-slim-bookworm AS build
COPY --from=ghcr.io/astral-sh/uv:0.9 /uv /usr/local/bin/uv
ENV UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_PROJECT_ENVIRONMENT=/opt/penstock
WORKDIR /src
COPY pyproject.toml uv.lock README.md LICENSE ./
RUN uv sync --locked --no-dev --extra spark --extra kafka --extra java --extra dashboard --no-install-project
COPY src src
RUN uv sync --locked --no-dev --extra spark --extra kafka --extra java --extra dashboard --no-editable \
    && /opt/penstock/bin/python -c "from penstock.simulation.native import advance; advance()"

FROM python:3.12-slim-bookworm
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends procps \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 penstock
COPY --from=build /opt/penstock /opt/penstock
ENV PATH=/opt/penstock/bin:$PATH
USER 10001
WORKDIR /work
EXPOSE 8765
ENTRYPOINT ["penstock"]
CMD ["--help"]
