# The extensions on PostgreSQL's official image:  docker build -t pg_lean --build-arg BASE=postgres:17 .
# ci/container.sh runs these steps, without a container tool, in pristine roots.
ARG BASE=postgres:17

FROM ${BASE} AS build
# The headers must be those of the image's server; if they are no longer offered, use a newer image.
RUN apt-get update && apt-get install -y --no-install-recommends make gcc libc6-dev "postgresql-server-dev-$PG_MAJOR=$PG_VERSION"
COPY . /pg_lean
RUN make -C /pg_lean install PG_CONFIG="/usr/lib/postgresql/$PG_MAJOR/bin/pg_config" DESTDIR=/made

FROM ${BASE}
COPY --from=build /made /
CMD ["postgres", "-c", "shared_preload_libraries=light_explain,appendable_bytea,parallel_temp,ram_tablespace"]
