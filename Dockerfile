# The desk on a ledger in /books:
#   docker build -t holdfast-desk .
#   docker run -p 127.0.0.1:8765:8765 -v "$PWD/books:/books" holdfast-desk
# The address to open is printed when it starts. Make the ledger first: holdfast ledger init.
FROM python:3.12-slim
RUN useradd --create-home --uid 1000 desk
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir '.[web,postgres,parquet,excel]' && rm -rf /source
USER desk
WORKDIR /books
ENV NUMBA_CACHE_DIR=/tmp/numba HOLDFAST_LEDGER=/books/holdfast.db
EXPOSE 8765
ENTRYPOINT ["holdfast"]
CMD ["serve", "--host", "0.0.0.0"]
