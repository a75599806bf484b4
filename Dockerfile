# The desk on a ledger, kept in a volume:
#   docker build -t holdfast-desk .
#   docker run --rm -v holdfast-books:/books holdfast-desk ledger init --sender "Example Bank"
#   docker run --rm -p 127.0.0.1:8765:8765 -v holdfast-books:/books holdfast-desk
# The address to open is printed when it starts. With a folder in place of the volume
# (-v "$PWD/books:/books") add --user "$(id -u):$(id -g)", so that the files are yours.

FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
RUN useradd --create-home --uid 1000 desk && install --directory --owner desk --group desk --mode 700 /books
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)[web,postgres,parquet,excel]"
# whatever user it runs as: caches of compiled code and of fonts, the home of whoever has none
ENV NUMBA_CACHE_DIR=/tmp/numba MPLCONFIGDIR=/tmp/matplotlib PYTHONUNBUFFERED=1 \
    HOLDFAST_LEDGER=/books/holdfast.db
USER desk
WORKDIR /books
VOLUME /books
EXPOSE 8765
ENTRYPOINT ["holdfast"]
# all interfaces of the container; which of the machine's it is published on, "docker run" says
CMD ["serve", "--host", "0.0.0.0"]
