# docker build -t kproxy . && docker run --rm -p 9092:9092 kproxy --listen 0.0.0.0:9092 --upstream broker:9092
FROM python:3.13-slim
COPY pyproject.toml README.md LICENSE /src/
COPY dissectors /src/dissectors
COPY kproxy /src/kproxy
RUN pip install --no-cache-dir "/src[metrics,tls,web]" && rm -r /src
RUN useradd --create-home kproxy
USER kproxy
# Traces are written here: mount a volume to keep them.
WORKDIR /home/kproxy
EXPOSE 9092
ENTRYPOINT ["kproxy"]
