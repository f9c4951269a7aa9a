# Serves the app on CPU: docker build -t driftscope . && docker run --rm -p 8501:8501 driftscope
FROM python:3.11-slim
# What RDKit's drawings and the set-up need.
RUN apt-get update && apt-get install -y --no-install-recommends make libxrender1 libxext6 libexpat1 \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /driftscope
# An index with CPU builds of torch; empty: pip's own.
ARG TORCH_INDEX=""
COPY . .
RUN python -m venv .venv \
    && .venv/bin/pip install --no-cache-dir ${TORCH_INDEX:+--index-url $TORCH_INDEX} "$(grep -o '^torch==[0-9.]*' requirements.txt)" \
    && make prepare
EXPOSE 8501
# Inside a container the server has to listen on all of its addresses.
CMD [".venv/bin/python", "-m", "streamlit", "run", "app.py", "--server.address=0.0.0.0", "--server.port=8501"]
