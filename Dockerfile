# Serves the app on CPU: docker build -t driftscope . && docker run --rm -p 8501:8501 driftscope
# `-v driftscope:/driftscope/data/store` keeps what was run and imported there.
FROM python:3.11-slim
# What RDKit's drawings and the set-up need; and a user without rights, who owns the program, its caches and its store.
RUN apt-get update && apt-get install -y --no-install-recommends make libxrender1 libxext6 libexpat1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home driftscope && install -d -o driftscope /driftscope
WORKDIR /driftscope
USER driftscope
# An index with CPU builds of torch; empty: pip's own.
ARG TORCH_INDEX=""
COPY --chown=driftscope . .
RUN python -m venv .venv \
    && .venv/bin/pip install --no-cache-dir ${TORCH_INDEX:+--index-url $TORCH_INDEX} "$(grep -o '^torch==[0-9.]*' requirements.txt)" \
    && make prepare && mkdir -p data/store
# Behind the folder's making: a new volume has the rights of the folder that it covers.
VOLUME /driftscope/data/store
EXPOSE 8501
# Inside a container the server has to listen on all of its addresses.
CMD [".venv/bin/python", "-m", "streamlit", "run", "app.py", "--server.address=0.0.0.0", "--server.port=8501"]
